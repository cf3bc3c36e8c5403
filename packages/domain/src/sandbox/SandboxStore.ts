/**
 * Port: where sandboxes, their log, their commands and their leases live. Every write is one transaction under the
 * lock of its sandbox. Checked by `testing/SandboxStoreContract`.
 */
import { Context, type DateTime, type Effect, type Result, Schema } from "effect"
import { type SecurityEvent } from "../access/AuditLog.ts"
import { type Topic, WORK } from "../Hints.ts"
import type { Uuid } from "../Ids.ts"
import type { SpendingRefused } from "../models/Spending.ts"
import type { SandboxId } from "../SandboxId.ts"
import type { Pull } from "../source/PullRequest.ts"
import type { RepoName } from "../source/RepoRef.ts"
import type { RepoNotAccessible } from "../source/SourceHost.ts"
import { type StoreUnavailable } from "../StoreUnavailable.ts"
import { utf8Length } from "../Text.ts"
import { type ConcurrencyLimitExceeded } from "./ActiveSandboxes.ts"
import type { Approval } from "./Approval.ts"
import type { Command, CommandResult, Receipt, Verdict } from "./Command.ts"
import { type IdempotencyConflict, type KeyedRequest } from "./Idempotency.ts"
import { type Creation, type Sandbox } from "./Sandbox.ts"
import { type SandboxEvent, type SandboxStatus } from "./SandboxEvent.ts"

/** No sandbox has this id, or it is another grant's. Callers must not be able to tell which. */
export class SandboxNotFound extends Schema.TaggedError<SandboxNotFound>()("SandboxNotFound", {}) {
  override get message() {
    return "No such sandbox."
  }
}

/** The id is taken. Draw another one. */
export class SandboxIdTaken extends Schema.TaggedError<SandboxIdTaken>()("SandboxIdTaken", {}) {}

/** The lease is another worker's by now. Nothing was written; stop working for this sandbox. */
export class StaleLease extends Schema.TaggedError<StaleLease>()("StaleLease", {}) {}

/** One event of the public log. `wire` is its JSON as every reader gets it. */
export interface LogEntry {
  readonly seq: number
  readonly type: SandboxEvent["type"]
  readonly wire: string
}

/** One prompt, or one message of the agent in full. `seq` is the event by which it was whole: see `wholeMessage`. */
export interface Message {
  readonly seq: number
  readonly id: string
  readonly turnId: string
  readonly role: "user" | "assistant"
  readonly text: string
  readonly createdAt: DateTime.Utc
}

/** Bytes of what of an entry, a message, a sandbox can be large: what their pages are measured by. */
export const bytesOf = {
  entry: ({ wire }: LogEntry): number => utf8Length(wire),
  message: ({ text }: Message): number => utf8Length(text),
  sandbox: ({ approvals, metadata, prompt, publications, repos, title, turn }: Sandbox): number =>
    utf8Length(prompt) + utf8Length(turn?.prompt ?? "") +
    utf8Length(JSON.stringify([approvals, metadata, publications, repos, title]))
}

/** Position in a list that is ordered by `createdAt`, then `id`, both descending. */
export interface ListPosition {
  readonly createdAt: DateTime.Utc
  readonly id: SandboxId
}

/** Which sandboxes of a grant to list, newest first. */
export interface ListQuery {
  readonly after: ListPosition | null
  /** At least 1. */
  readonly limit: number
  readonly status: SandboxStatus | null
  /** Matches any of a sandbox's repositories, whatever the case. */
  readonly repo: RepoName | null
}

/** A worker's right to work for a sandbox until the lease runs out. Every write carries `fence`; a newer lease has a higher one. */
export interface Lease {
  readonly sandboxId: SandboxId
  readonly fence: number
}

/** A sandbox a worker may work for from now on. */
export interface Claimed {
  readonly lease: Lease
  readonly sandbox: Sandbox
  /** The agent's own session id, when an earlier worker got as far. */
  readonly agentSession: string | null
  /** Whether the trees and the box of a lost worker are on another machine. */
  readonly elsewhere: boolean
}

/** Who leases sandboxes. */
export interface Worker {
  /** Unique per process. */
  readonly worker: string
  /** The machine whose disk holds the working trees; outlives the process. */
  readonly machine: string
}

/** What is live at a moment, in all grants together. */
export interface Census {
  /** Sandboxes by the statuses that are not settled. */
  readonly live: Readonly<Record<"queued" | "creating" | "running" | "terminating", number>>
  /** Of those, the ones that a worker holds a lease of. */
  readonly leased: number
  /** When the longest waiting one of those queued was created; `null`: none is queued. */
  readonly oldestQueuedAt: DateTime.Utc | null
  /** Tool calls that wait for a person. */
  readonly pendingApprovals: number
}

/** Who changes a sandbox: a worker under its lease, a request of a grant, or the service's own rules. */
export type Writer = Lease | { readonly grantId: string } | "policy"

/** Durations of leases: long enough for a pause, short enough for a takeover that people do not notice. */
export const LEASE_SECONDS = 30
/** How often a worker renews its leases: three chances before one runs out. */
export const LEASE_RENEWAL_SECONDS = 10

type ById = { readonly grantId: string; readonly id: SandboxId }

/** Checked by `testing/SandboxStoreContract`. `StoreUnavailable`: retrying helps, and is safe everywhere. */
export class SandboxStore extends Context.Service<SandboxStore, {
  /**
   * Records a new sandbox with its first event, and the key when there is one: all or nothing. A key that is bound to
   * an equal request gives the sandbox as it is now, `replayed`, whatever `MaxActiveSandboxes` says; a new one never
   * makes the grant's active sandboxes more than that, however many are created at once. `refused`: why there may be no
   * new one; a replay is answered all the same. `organizationId`: the grant's. If its creator has a touch there, the task's
   * start is told to partners with it.
   */
  create(
    creation: Creation,
    keyed: KeyedRequest | null,
    refused?: SpendingRefused | RepoNotAccessible | null,
    organizationId?: string
  ): Effect.Effect<
    { readonly sandbox: Sandbox; readonly replayed: boolean },
    SpendingRefused | RepoNotAccessible | ConcurrencyLimitExceeded | IdempotencyConflict | SandboxIdTaken | StoreUnavailable
  >
  find(key: ById): Effect.Effect<Sandbox, SandboxNotFound | StoreUnavailable>
  /** Sandboxes of one grant, newest first; stable while others are created. A page as `pageOf` makes one by {@link bytesOf}. */
  list(grantId: string, query: ListQuery): Effect.Effect<ReadonlyArray<Sandbox>, StoreUnavailable>
  /**
   * Entries with a `seq` greater than `after`, ascending: a page as `pageOf` makes one by {@link bytesOf}. The caller
   * has checked whose sandbox it is.
   */
  log(id: SandboxId, after: number, limit: number): Effect.Effect<ReadonlyArray<LogEntry>, StoreUnavailable>
  /**
   * Messages with a `seq` greater than `after`, ascending: a page as `pageOf` makes one by {@link bytesOf}. The caller
   * has checked whose sandbox it is.
   */
  messages(id: SandboxId, after: number, limit: number): Effect.Effect<ReadonlyArray<Message>, StoreUnavailable>

  /**
   * Carries out one command of a person: locks the sandbox, reads the receipt and the approval that the command names,
   * writes what it decides together with its receipt. A duplicate is answered from the first one's receipt. With a key
   * (unique per sandbox) that is bound to an equal request, it is a duplicate of that request's command, whatever `command`
   * would decide now; an applied command binds the key.
   */
  command<E>(key: ById, command: Command<E>, now: DateTime.Utc, keyed?: KeyedRequest): Effect.Effect<
    CommandResult,
    E | IdempotencyConflict | SandboxNotFound | StoreUnavailable
  >

  /**
   * Locks the sandbox and records what `decide` makes of it; nothing is written when that is empty. `opened`: which pull
   * request it says is there. Partners are told with it, once, if the sandbox started under a touch.
   */
  change<E>(
    id: SandboxId,
    by: Writer,
    decide: (sandbox: Sandbox) => Result.Result<ReadonlyArray<SandboxEvent>, E>,
    now: DateTime.Utc,
    opened?: Pull
  ): Effect.Effect<Sandbox, E | SandboxNotFound | StaleLease | StoreUnavailable>

  /** How these approvals stand; unknown ids are left out. */
  approvals(id: SandboxId, approvalIds: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<Approval>, StoreUnavailable>

  /**
   * Leases up to `limit` sandboxes that need a worker and have none, and beyond them up to `ending` (default: `limit`) that
   * are ending: they free room, and a full worker must not keep them from it. Grants take turns, the one of which workers
   * hold fewest first, and within a grant the longest waiting goes first. A lost worker's sandbox goes to a worker of the
   * same machine at once, to another machine only after `Policy.lost`.
   */
  claim(by: Worker, limit: number, ending?: number): Effect.Effect<ReadonlyArray<Claimed>, StoreUnavailable>
  /** Extends leases; returns those that are still held. */
  renew(leases: ReadonlyArray<Lease>): Effect.Effect<ReadonlyArray<Lease>, StoreUnavailable>
  /**
   * Ends every lease of a machine. For a worker that starts and knows that no other one runs there: what a killed one
   * held need not wait for its end.
   */
  endLeases(machine: string): Effect.Effect<void, StoreUnavailable>
  /** Gives a lease back, so that another worker need not wait for its end. A stale one is ignored. */
  release(lease: Lease): Effect.Effect<void, StoreUnavailable>
  /** Remembers the agent's own session id. */
  saveAgentSession(lease: Lease, agentSession: string): Effect.Effect<void, StaleLease | StoreUnavailable>
  /** What time it is by the store's own clock, which leases and limits go by. */
  readonly now: Effect.Effect<DateTime.Utc, StoreUnavailable>
  /** Sandboxes of which a time limit has come by `now` of the store's own clock, oldest limit first. */
  due(limit: number): Effect.Effect<{ readonly now: DateTime.Utc; readonly ids: ReadonlyArray<SandboxId> }, StoreUnavailable>
  /** Live sandboxes whose grant was revoked: they are to end. */
  ofRevokedGrants(limit: number): Effect.Effect<ReadonlyArray<SandboxId>, StoreUnavailable>
  /** `seq` of the newest event that is no longer kept; 0 while all are. The caller has checked whose sandbox it is. */
  purged(id: SandboxId): Effect.Effect<number, StoreUnavailable>
  /**
   * Forgets the events of up to `limit` sandboxes that ended at `endedBefore` or earlier and are still ended; the
   * sandboxes themselves and their messages stay. Says of how many.
   */
  purgeEvents(endedBefore: DateTime.Utc, limit: number): Effect.Effect<number, StoreUnavailable>
  /** Forgets up to `limit` idempotency keys that are older than `RETENTION_DAYS`, which bind nothing any more. Says how many. */
  purgeKeys(limit: number): Effect.Effect<number, StoreUnavailable>
  /** Which of these sandboxes are over, or unknown: whatever a host still has of them can go. */
  over(ids: ReadonlyArray<SandboxId>): Effect.Effect<ReadonlyArray<SandboxId>, StoreUnavailable>
  /** The machine that worked for most of these sandboxes; `null`: none did, or they are unknown. */
  machineOf(ids: ReadonlyArray<SandboxId>): Effect.Effect<string | null, StoreUnavailable>
  /** For those who watch over the service. Takes time by the number of live sandboxes alone. */
  readonly census: Effect.Effect<Census, StoreUnavailable>
}>()("@slipway/domain/SandboxStore") {
}

/** What to hint after these events were committed: only a change of status can leave a sandbox without a worker. */
export const topicsOf = (id: SandboxId, events: ReadonlyArray<SandboxEvent>): ReadonlyArray<Topic> =>
  events.some(({ type }) => type === "sandbox.status") ? [id, WORK] : [id]

/** What the audit log is told of events: which approvals a person decided. */
export const decisions = (sandboxId: SandboxId, events: ReadonlyArray<SandboxEvent>, at: DateTime.Utc): ReadonlyArray<SecurityEvent> =>
  events.flatMap((event) =>
    event.type === "approval.resolved" && event.data.by === "user"
      ? [{ action: "approval.decided", at, subjects: { sandboxId, approvalId: event.data.approval_id, outcome: event.data.outcome } }]
      : []
  )

/**
 * What the caller of a command is told, and the receipt to keep of it: none when it is a duplicate. A rejection never
 * replaces what was applied. `revision` is the sandbox's after the command.
 */
export const conclude = (
  revision: number,
  commandId: Uuid,
  receipt: Receipt | null,
  verdict: Verdict
): { readonly result: CommandResult; readonly keep: Receipt | null } => {
  switch (verdict.outcome) {
    case "duplicate":
      return { result: { commandId, revision: receipt?.revision ?? revision, outcome: "duplicate" }, keep: null }
    case "applied":
      return { result: { commandId, revision, outcome: "applied" }, keep: { commandId, revision, outcome: "applied" } }
    case "rejected":
      return {
        result: { commandId, revision, outcome: "rejected", rejection: verdict.rejection },
        keep: receipt === null ? { commandId, revision, outcome: "rejected" } : null
      }
  }
}
