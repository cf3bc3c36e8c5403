/**
 * Port: where sandboxes, their log and their commands live. Every write is one transaction under the lock of its sandbox.
 * Beside it, over the same rows: `Leases` and `Upkeep`. Checked by `testing/SandboxStoreContract`.
 */
import { Context, type DateTime, type Effect, type Result, Schema } from "effect"
import { type SecurityEvent } from "../access/AuditLog.ts"
import { type Topic, WORK } from "../Hints.ts"
import type { Uuid } from "../Ids.ts"
import type { SandboxId } from "../SandboxId.ts"
import type { Pull } from "../source/PullRequest.ts"
import type { RepoName } from "../source/RepoRef.ts"
import { type StoreUnavailable } from "../StoreUnavailable.ts"
import { utf8Length } from "../Text.ts"
import { type ConcurrencyLimitExceeded } from "./ActiveSandboxes.ts"
import type { Approval } from "./Approval.ts"
import type { Command, CommandResult, Receipt, Verdict } from "./Command.ts"
import { type IdempotencyConflict, type KeyedRequest } from "./Idempotency.ts"
import type { Lease, StaleLease } from "./Leases.ts"
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

/** One event of the public log. `wire` is its JSON as every reader gets it. */
export interface LogEntry {
  readonly seq: number
  readonly type: SandboxEvent["type"]
  readonly wire: string
}

/** One prompt, or one message of the agent in full. `seq` is the event by which it was whole: see `Recording`. */
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

/** Who changes a sandbox: a worker under its lease, a request of a grant, or the service's own rules. */
export type Writer = Lease | { readonly grantId: string } | "policy"

/** What is to be recorded of a request for a sandbox. */
export interface CreationRequest {
  readonly creation: Creation
  /** `null`: the request came without a key. */
  readonly keyed: KeyedRequest | null
  /** The grant's. If the creator has a touch there, the task's start is told to partners with it; `null`: nobody is told. */
  readonly organizationId: string | null
}

/** What one transaction recorded of a sandbox. */
export interface Recorded {
  /** As it was decided on. */
  readonly before: Sandbox
  /** In order. Empty: nothing was written. */
  readonly events: ReadonlyArray<SandboxEvent>
  /** As it is with them. */
  readonly sandbox: Sandbox
}

type ById = { readonly grantId: string; readonly id: SandboxId }

/** Checked by `testing/SandboxStoreContract`. `StoreUnavailable`: retrying helps, and is safe everywhere. */
export class SandboxStore extends Context.Service<SandboxStore, {
  /**
   * Records a new sandbox with its first event, and the key when there is one: all or nothing. A key that is bound to
   * an equal request gives the sandbox as it is now, `replayed`, whatever `MaxActiveSandboxes` says; a new one never
   * makes the grant's active sandboxes more than that, however many are created at once.
   */
  create(request: CreationRequest): Effect.Effect<
    { readonly sandbox: Sandbox; readonly replayed: boolean },
    ConcurrencyLimitExceeded | IdempotencyConflict | SandboxIdTaken | StoreUnavailable
  >
  /**
   * The sandbox that the grant's key made, as it is now, if it is bound to an equal request; `null`: the key is free. For a
   * request that may make nothing: whoever repeats one that was accepted is answered all the same.
   */
  replay(grantId: string, keyed: KeyedRequest): Effect.Effect<Sandbox | null, IdempotencyConflict | StoreUnavailable>
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
   * would decide now; an applied command binds the key. `turnId`: the turn that the command started; a duplicate has the
   * first one's, whatever came since. Only a message starts one.
   */
  command<E>(key: ById, command: Command<E>, now: DateTime.Utc, keyed?: KeyedRequest): Effect.Effect<
    Recorded & { readonly result: CommandResult; readonly turnId: Uuid | null },
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
  ): Effect.Effect<Recorded, E | SandboxNotFound | StaleLease | StoreUnavailable>

  /** How these approvals stand; unknown ids are left out. */
  approvals(id: SandboxId, approvalIds: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<Approval>, StoreUnavailable>

  /** `seq` of the newest event that is no longer kept; 0 while all are. The caller has checked whose sandbox it is. */
  purged(id: SandboxId): Effect.Effect<number, StoreUnavailable>
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

/** The turn that begins with one of these events. */
const started = (events: ReadonlyArray<SandboxEvent>): Uuid | null =>
  events.find((event) => event.type === "turn.updated" && event.data.state === "pending")?.turn_id ?? null

/**
 * What the caller of a command is told, the turn that it started, and the receipt to keep of it: none when it is a duplicate.
 * A rejection never replaces what was applied. `revision` is the sandbox's after the command.
 */
export const conclude = (
  revision: number,
  commandId: Uuid,
  receipt: Receipt | null,
  verdict: Verdict
): { readonly result: CommandResult; readonly turnId: Uuid | null; readonly keep: Receipt | null } => {
  switch (verdict.outcome) {
    case "duplicate":
      return {
        result: { commandId, revision: receipt?.revision ?? revision, outcome: "duplicate" },
        turnId: receipt?.turnId ?? null,
        keep: null
      }
    case "applied": {
      const turnId = started(verdict.events)
      return { result: { commandId, revision, outcome: "applied" }, turnId, keep: { commandId, revision, outcome: "applied", turnId } }
    }
    case "rejected":
      return {
        result: { commandId, revision, outcome: "rejected", rejection: verdict.rejection },
        turnId: null,
        keep: receipt === null ? { commandId, revision, outcome: "rejected", turnId: null } : null
      }
  }
}
