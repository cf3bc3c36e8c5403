/**
 * Port: where sandboxes, their log and their commands live. Every write is one transaction under the lock of its sandbox.
 * Beside it, over the same rows: `Leases` and `Maintenance`. Checked by `SandboxStoreContract`.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { SecurityEvent } from "../../access/ports/AuditLog.ts"
import type { Uuid } from "../../ids/Ids.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { Pull } from "../../source/schema/PullRequest.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import { type Topic, WORK } from "../../store/Hints.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { utf8Length } from "../../text/Utf8.ts"
import type { Approval } from "../rules/Approval.ts"
import type { Command, CommandResult, Receipt, Verdict } from "../rules/Command.ts"
import type { LogEntry, Message } from "../rules/EventProjection.ts"
import type { IdempotencyConflict, KeyedRequest } from "../rules/Idempotency.ts"
import { workOf } from "../rules/LeaseRules.ts"
import type { Creation, Sandbox } from "../rules/Sandbox.ts"
import type { SandboxEvent, SandboxStatus } from "../rules/SandboxEvent.ts"
import type { Turn } from "../rules/Turn.ts"
import type { ConcurrencyLimitExceeded } from "./ActiveSandboxes.ts"
import type { CheckpointNotFound } from "./Checkpoints.ts"
import type { Lease, StaleLease } from "./Leases.ts"

export type { LogEntry, Message } from "../rules/EventProjection.ts"

/** No sandbox has this id, or it is another grant's. Callers must not be able to tell which. */
export class SandboxNotFound extends Schema.TaggedError<SandboxNotFound>()("SandboxNotFound", {}) {
  override get message() {
    return "No such sandbox."
  }
}

/** The id is taken. Draw another one. */
export class SandboxIdTaken extends Schema.TaggedError<SandboxIdTaken>()("SandboxIdTaken", {}) {}

/** The types of the entries that `checkpointLog` has. */
export const CHECKPOINT_TYPES = ["sandbox.checkpoint", "sandbox.restored"] as const satisfies ReadonlyArray<SandboxEvent["type"]>

/** What clients are shown of a sandbox, of many at once: without its prompts, which are most of it. */
export interface SandboxSummary extends
  Pick<
    Sandbox,
    | "agentRuntime"
    | "completedAt"
    | "createdAt"
    | "error"
    | "id"
    | "metadata"
    | "model"
    | "repos"
    | "startedAt"
    | "status"
    | "title"
    | "usage"
  >
{
  readonly turn: Pick<Turn, "state"> | null
}

export const summaryOf = (sandbox: Sandbox): SandboxSummary => ({
  id: sandbox.id,
  createdAt: sandbox.createdAt,
  title: sandbox.title,
  repos: sandbox.repos,
  model: sandbox.model,
  agentRuntime: sandbox.agentRuntime,
  metadata: sandbox.metadata,
  status: sandbox.status,
  startedAt: sandbox.startedAt,
  completedAt: sandbox.completedAt,
  error: sandbox.error,
  turn: sandbox.turn === null ? null : { state: sandbox.turn.state },
  usage: sandbox.usage
})

/** Bytes of what of an entry, a message, a sandbox, its summary can be large: what their pages are measured by. */
export const bytesOf = {
  entry: ({ wire }: LogEntry): number => utf8Length(wire),
  message: ({ text }: Message): number => utf8Length(text),
  sandbox: ({ approvals, metadata, prompt, publications, repos, title, turn }: Sandbox): number =>
    utf8Length(prompt) + utf8Length(turn?.prompt ?? "") +
    utf8Length(JSON.stringify([approvals, metadata, publications, repos, title])),
  summary: ({ error, metadata, repos, title }: SandboxSummary): number => utf8Length(JSON.stringify([error, metadata, repos, title]))
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
  /** The trace of whoever asked, as `RootSpan.traceparent` writes it; absent or `null`: none. A replay keeps the first one's. */
  readonly trace?: string | null
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

/** Whose trace goes on: as W3C Trace Context writes a `traceparent`. */
export interface Traces {
  readonly creation: string | null
  readonly turn: string | null
}

type ById = { readonly grantId: string; readonly id: SandboxId }

/**
 * What was answered is there for whoever opens the same storage next, and of a call in the midst of which a process died there is all
 * or nothing (`DurabilityContract`). After each commit that wrote events {@link topicsOf} it are hinted, and nothing else is.
 * Checked by `SandboxStoreContract`. `StoreUnavailable`: retrying helps, and is safe everywhere.
 */
export class SandboxStore extends Context.Service<SandboxStore, {
  /**
   * Records a new sandbox with its first events, and the key when there is one: all or nothing. A key that is bound to
   * an equal request gives the sandbox as it is now, `replayed`, whatever `MaxActiveSandboxes` says; a new one never
   * makes the grant's active sandboxes more than that, however many are created at once. `CheckpointNotFound`: what it is to
   * start with is not kept; once it is recorded, that stays for it (`Checkpoints.prune`). Keys of creations, and of forks of each
   * sandbox, are apart.
   */
  create(request: CreationRequest): Effect.Effect<
    { readonly sandbox: Sandbox; readonly replayed: boolean },
    CheckpointNotFound | ConcurrencyLimitExceeded | IdempotencyConflict | SandboxIdTaken | StoreUnavailable
  >
  /**
   * The sandbox that the grant's key made, as it is now, if it is bound to an equal request; `null`: the key is free. For a
   * request that may make nothing: whoever repeats one that was accepted is answered all the same. `forkOf`: of which sandbox
   * the request asks for a fork; `null`: of none.
   */
  replay(
    grantId: string,
    keyed: KeyedRequest,
    forkOf: SandboxId | null
  ): Effect.Effect<Sandbox | null, IdempotencyConflict | StoreUnavailable>
  find(key: ById): Effect.Effect<Sandbox, SandboxNotFound | StoreUnavailable>
  /**
   * Sandboxes of one grant, newest first; stable while others are created. A page as `pageOf` makes one by {@link bytesOf}. What
   * waits in them comes without its text.
   */
  list(grantId: string, query: ListQuery): Effect.Effect<ReadonlyArray<Sandbox>, StoreUnavailable>
  /** As `list`, of each what {@link summaryOf} has of it: a page as `pageOf` makes one by {@link bytesOf} of summaries. */
  summaries(grantId: string, query: ListQuery): Effect.Effect<ReadonlyArray<SandboxSummary>, StoreUnavailable>
  /**
   * Entries with a `seq` greater than `after`, ascending: a page as `pageOf` makes one by {@link bytesOf}. The caller
   * has checked whose sandbox it is.
   */
  log(id: SandboxId, after: number, limit: number): Effect.Effect<ReadonlyArray<LogEntry>, StoreUnavailable>
  /** As `log`, of its checkpoints and of what was restored alone: as quick in a long log as in a short one. */
  checkpointLog(id: SandboxId, after: number, limit: number): Effect.Effect<ReadonlyArray<LogEntry>, StoreUnavailable>
  /**
   * Messages with a `seq` greater than `after`, ascending: a page as `pageOf` makes one by {@link bytesOf}. The caller
   * has checked whose sandbox it is.
   */
  messages(id: SandboxId, after: number, limit: number): Effect.Effect<ReadonlyArray<Message>, StoreUnavailable>

  /**
   * Carries out one command of a person: locks the sandbox, reads the receipt and the approval that the command names,
   * writes what it decides together with its receipt. A duplicate is answered from the first one's receipt. With a key
   * (unique per sandbox) that is bound to an equal request, it is a duplicate of that request's command, whatever `command`
   * would decide now; an applied command binds the key. `turnId`: the turn that the command started or waits for; a duplicate has
   * the first one's, whatever came since. Only a message has one. `trace`: of whoever asked, as in a {@link CreationRequest}; kept of
   * an applied command for the turn that it gets.
   */
  command<E>(key: ById, command: Command<E>, now: DateTime.Utc, keyed?: KeyedRequest, trace?: string | null): Effect.Effect<
    Recorded & { readonly result: CommandResult; readonly turnId: Uuid | null },
    E | IdempotencyConflict | SandboxNotFound | StoreUnavailable
  >

  /**
   * The traces of the request for the sandbox and of the message that got the turn, as they were given; `null`: none was kept.
   * `turnId`: `null` for none. An unknown sandbox has no traces.
   */
  traces(id: SandboxId, turnId: string | null): Effect.Effect<Traces, StoreUnavailable>

  /**
   * Records what `decide` makes of the sandbox as it is; nothing is written when that is empty. It may be asked more than once: what
   * it made of an older state is thrown away. `opened`: which pull
   * request it says is there. Partners are told with it, once, if the sandbox started under a touch. `StaleLease`: it is not the
   * sandbox's newest lease; one of an unknown sandbox is stale too.
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

/** The note of the hint of a change (`Hints.publish`): all entries that its transaction appended to the log, ascending. */
export class Appended {
  readonly entries: ReadonlyArray<LogEntry>
  constructor(entries: ReadonlyArray<LogEntry>) {
    this.entries = entries
  }
}

/** What to hint after this was committed: a worker is to look when one may be needed that was not. */
export const topicsOf = ({ before, events, sandbox }: Recorded): ReadonlyArray<Topic> =>
  events.some(({ type }) => type === "sandbox.status") || workOf(before) === null && workOf(sandbox) !== null
    ? [sandbox.id, WORK]
    : [sandbox.id]

/** What the audit log is told of events: what a person decided, took back or made of another sandbox. */
export const securityEvents = (
  sandboxId: SandboxId,
  events: ReadonlyArray<SandboxEvent>,
  at: DateTime.Utc
): ReadonlyArray<SecurityEvent> =>
  events.flatMap(({ data, type }): ReadonlyArray<SecurityEvent> => {
    switch (type) {
      case "approval.resolved":
        return data.by === "user"
          ? [{
            action: "approval.decided",
            at,
            subjects: {
              sandboxId,
              approvalId: data.approval_id,
              outcome: data.outcome,
              ...(data.scope === undefined ? {} : { scope: data.scope })
            }
          }]
          : []
      case "sandbox.restoring":
        return [{ action: "sandbox.restored", at, subjects: { sandboxId, checkpoint: String(data.checkpoint) } }]
      case "sandbox.forked":
        return [{ action: "sandbox.forked", at, subjects: { sandboxId, originId: data.sandbox_id, checkpoint: String(data.checkpoint) } }]
      default:
        return []
    }
  })

/** The turn that a person's message gets by these events, if they have one. The reason of a denial comes after what it denies. */
const gotten = (events: ReadonlyArray<SandboxEvent>): Uuid | null => {
  for (const event of events) if (event.type === "message.queued") return event.data.message_id
  const [first] = events
  return first?.type === "turn.updated" && first.data.state === "pending" ? first.turn_id ?? null : null
}

/**
 * What the caller of a command is told, the turn that a message gets, and the receipt to keep of it: none when it is a duplicate.
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
      const turnId = gotten(verdict.events)
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
