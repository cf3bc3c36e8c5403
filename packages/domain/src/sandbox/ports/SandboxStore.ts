/**
 * Port: stores sandboxes, their logs and their commands. Every write is one transaction under the lock of its sandbox. `Leases` and
 * `Maintenance` use the same rows. Checked by `SandboxStoreContract`.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { SecurityEvent } from "../../access/ports/AuditLog.ts"
import type { Uuid } from "../../ids/Ids.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import { type Topic, WORK } from "../../store/Hints.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { utf8Length } from "../../text/Utf8.ts"
import type { Approval } from "../rules/Approval.ts"
import type { Command, CommandResult, Receipt, Verdict } from "../rules/Command.ts"
import type { LogEntry, Message } from "../rules/EventProjection.ts"
import type { IdempotencyConflict, KeyedRequest, SandboxDeleted } from "../rules/Idempotency.ts"
import { workOf } from "../rules/LeaseRules.ts"
import type { QuestionState } from "../rules/Question.ts"
import type { Creation, Sandbox, SandboxNotFinished } from "../rules/Sandbox.ts"
import type { SandboxEvent, SandboxStatus } from "../rules/SandboxEvent.ts"
import type { Turn } from "../rules/Turn.ts"
import type { ConcurrencyLimitExceeded } from "./ActiveSandboxes.ts"
import type { CheckpointNotFound } from "./Checkpoints.ts"
import type { Lease, StaleLease } from "./Leases.ts"

export type { LogEntry, Message } from "../rules/EventProjection.ts"

/** No sandbox has this id, or another grant owns it. Callers must not be able to tell which. */
export class SandboxNotFound extends Schema.TaggedError<SandboxNotFound>()("SandboxNotFound", {}) {
  override get message() {
    return "No such sandbox."
  }
}

/** The id is taken. Draw another one. */
export class SandboxIdTaken extends Schema.TaggedError<SandboxIdTaken>()("SandboxIdTaken", {}) {}

/** The types of the entries of `checkpointLog`. */
export const CHECKPOINT_TYPES = ["sandbox.checkpoint", "sandbox.restored"] as const satisfies ReadonlyArray<SandboxEvent["type"]>

/** The fields of a sandbox in lists for clients: without its prompts, which take the most bytes. */
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

/** The summary of a sandbox. */
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

/** Bytes of the large fields of an entry, message, sandbox and summary, for the limits of pages. */
export const bytesOf = {
  entry: ({ wire }: LogEntry): number => utf8Length(wire),
  message: ({ text }: Message): number => utf8Length(text),
  sandbox: ({ approvals, metadata, prompt, publications, repos, title, turn }: Sandbox): number =>
    utf8Length(prompt) + utf8Length(turn?.prompt ?? "") +
    utf8Length(JSON.stringify([approvals, metadata, publications, repos, title, turn?.questions])),
  summary: ({ error, metadata, repos, title }: SandboxSummary): number => utf8Length(JSON.stringify([error, metadata, repos, title]))
}

/** A position in a list that is ordered by `createdAt`, then `id`, both descending. */
export interface ListPosition {
  readonly createdAt: DateTime.Utc
  readonly id: SandboxId
}

/** A page of a grant's sandboxes, newest first. */
export interface ListQuery {
  readonly after: ListPosition | null
  /** At least 1. */
  readonly limit: number
  readonly status: SandboxStatus | null
  /** Matches any repository of the sandbox, in any case. */
  readonly repo: RepoName | null
}

/** The author of a change: a worker under its lease, a request of a grant, or the service's own rules. */
export type Writer = Lease | { readonly grantId: string } | "policy"

/** The input for recording a creation. */
export interface CreationRequest {
  readonly creation: Creation
  /** `null`: the request had no idempotency key. */
  readonly keyed: KeyedRequest | null
  /** The trace of the request, in the form of `RootSpan.traceparent`; absent or `null`: no trace. A replay keeps the first request's. */
  readonly trace?: string | null
}

/** The result of one transaction on a sandbox. */
export interface Recorded {
  /** The state that the decision was based on. */
  readonly before: Sandbox
  /** In order. Empty: nothing was written. */
  readonly events: ReadonlyArray<SandboxEvent>
  /** The state after the events. */
  readonly sandbox: Sandbox
}

/** The traces to continue, each a `traceparent` of W3C Trace Context. */
export interface Traces {
  readonly creation: string | null
  readonly turn: string | null
}

/** The sandboxes that `publishers` returns at most. */
export const MAX_PUBLISHERS = 20

/** A sandbox that publishes to a branch. */
export interface Publisher {
  readonly id: SandboxId
  readonly grantId: string
}

type ById = { readonly grantId: string; readonly id: SandboxId }

/**
 * A completed write is visible to the next process that opens the storage. A call during which the process died is complete or has no
 * effect (`DurabilityContract`). After each commit that wrote events, exactly {@link topicsOf} it are hinted. Checked by
 * `SandboxStoreContract`. After `StoreUnavailable`, retrying helps and is safe.
 */
export class SandboxStore extends Context.Service<SandboxStore, {
  /**
   * Records a new sandbox with its first events and its key, in one transaction. A key of an equal earlier request returns that
   * request's sandbox with `replayed`, whatever `MaxActiveSandboxes` is. A new sandbox never exceeds that limit, also among concurrent
   * creations. `CheckpointNotFound`: the checkpoint to start with is not stored; otherwise it is kept for the new sandbox
   * (`Checkpoints.prune`). Keys of creations, and of forks of each sandbox, are separate. `SandboxDeleted`: the key's sandbox was deleted.
   */
  create(request: CreationRequest): Effect.Effect<
    { readonly sandbox: Sandbox; readonly replayed: boolean },
    CheckpointNotFound | ConcurrencyLimitExceeded | IdempotencyConflict | SandboxDeleted | SandboxIdTaken | StoreUnavailable
  >
  /**
   * The present sandbox that the grant's key made, if it is bound to an equal request; `null`: the key is free. For requests that are
   * no longer allowed: a repetition of an accepted request is still answered. `forkOf`: the sandbox that the request forks; `null`: not
   * a fork.
   */
  replay(
    grantId: string,
    keyed: KeyedRequest,
    forkOf: SandboxId | null
  ): Effect.Effect<Sandbox | null, IdempotencyConflict | SandboxDeleted | StoreUnavailable>
  find(key: ById): Effect.Effect<Sandbox, SandboxNotFound | StoreUnavailable>
  /**
   * The sandboxes of one grant, newest first; stable while sandboxes are created. The limits of a page are those of `pageOf` with
   * {@link bytesOf}. Waiting messages have no texts.
   */
  list(grantId: string, query: ListQuery): Effect.Effect<ReadonlyArray<Sandbox>, StoreUnavailable>
  /** Like `list`, with {@link summaryOf} each sandbox. The limits of a page are those of `pageOf` with {@link bytesOf} of summaries. */
  summaries(grantId: string, query: ListQuery): Effect.Effect<ReadonlyArray<SandboxSummary>, StoreUnavailable>
  /**
   * Entries with a `seq` greater than `after`, ascending. The limits of a page are those of `pageOf` with {@link bytesOf}. The caller
   * has checked access to the sandbox.
   */
  log(id: SandboxId, after: number, limit: number): Effect.Effect<ReadonlyArray<LogEntry>, StoreUnavailable>
  /** Like `log`, with entries of checkpoints and restores only. The time does not depend on the length of the log. */
  checkpointLog(id: SandboxId, after: number, limit: number): Effect.Effect<ReadonlyArray<LogEntry>, StoreUnavailable>
  /**
   * Messages with a `seq` greater than `after`, ascending. The limits of a page are those of `pageOf` with {@link bytesOf}. The caller
   * has checked access to the sandbox.
   */
  messages(id: SandboxId, after: number, limit: number): Effect.Effect<ReadonlyArray<Message>, StoreUnavailable>

  /**
   * Executes one command of a person. It locks the sandbox, reads the receipt, the approval and the question of the command, and writes the
   * decision together with its receipt. A duplicate gets the answer of the first receipt. A key, unique per sandbox, that is bound to
   * an equal request makes it a duplicate of that request's command, whatever `command` would decide now. An applied command binds the key.
   *
   * `turnId`: the turn that a message started or waits for; a duplicate returns the first one's, whatever happened since. Other
   * commands have none. `trace`: the request's trace, as in a {@link CreationRequest}; that of an applied message is stored for its
   * turn.
   */
  command<E>(key: ById, command: Command<E>, now: DateTime.Utc, keyed?: KeyedRequest, trace?: string | null): Effect.Effect<
    Recorded & { readonly result: CommandResult; readonly turnId: Uuid | null },
    E | IdempotencyConflict | SandboxNotFound | StoreUnavailable
  >

  /**
   * The stored traces of the creating request and of the turn's message; `null`: none. `turnId`: `null` for no turn. An unknown sandbox
   * has no traces.
   */
  traces(id: SandboxId, turnId: string | null): Effect.Effect<Traces, StoreUnavailable>

  /**
   * Records the events that `decide` returns for the present sandbox; an empty result writes nothing. `decide` may run repeatedly, and
   * results for older states are dropped. `StaleLease`: it is not the sandbox's newest lease, or the sandbox is unknown.
   */
  change<E>(
    id: SandboxId,
    by: Writer,
    decide: (sandbox: Sandbox) => Result.Result<ReadonlyArray<SandboxEvent>, E>,
    now: DateTime.Utc
  ): Effect.Effect<Recorded, E | SandboxNotFound | StaleLease | StoreUnavailable>

  /**
   * Deletes a sandbox that `mayDelete` allows, for good: its state, log, messages, approvals, questions, receipts, traces, setup, pins,
   * and the checkpoints that no live fork starts with. Afterwards, for every reader at once, the sandbox is unknown: its log is empty,
   * and leases on it are stale. Kept are its id, grant, times and status, the key that created it (then `SandboxDeleted`), its
   * costs, its partner events and its pushed commits. Open readers are hinted. The deletion is in the audit log.
   */
  delete(key: ById, now: DateTime.Utc): Effect.Effect<void, SandboxNotFinished | SandboxNotFound | StoreUnavailable>

  /** The state of these approvals, in the given order. Unknown ids are left out. */
  approvals(id: SandboxId, approvalIds: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<Approval>, StoreUnavailable>

  /** The state of these requests for answers, in the given order. Unknown ids are left out. */
  questions(id: SandboxId, questionIds: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<QuestionState>, StoreUnavailable>

  /**
   * The sandboxes of all grants that publish to this branch of this repository, in any case of its name, newest first: at most
   * {@link MAX_PUBLISHERS}. They continue it, or it has the form of their own branches (`sandboxOf`).
   */
  publishers(repo: RepoName, branch: string): Effect.Effect<ReadonlyArray<Publisher>, StoreUnavailable>

  /** `seq` of the newest deleted event; 0: all events are stored. The caller has checked access to the sandbox. */
  purged(id: SandboxId): Effect.Effect<number, StoreUnavailable>
}>()("@slipway/domain/SandboxStore") {
}

/** The note of a change's hint (`Hints.publish`): all entries that its transaction appended to the log, ascending. */
export class Appended {
  readonly entries: ReadonlyArray<LogEntry>
  constructor(entries: ReadonlyArray<LogEntry>) {
    this.entries = entries
  }
}

/** The topics to hint after this commit. Includes `WORK` if the sandbox newly needs a worker. */
export const topicsOf = ({ before, events, sandbox }: Recorded): ReadonlyArray<Topic> =>
  events.some(({ type }) => type === "sandbox.status") || workOf(before) === null && workOf(sandbox) !== null
    ? [sandbox.id, WORK]
    : [sandbox.id]

/** The security event for a deletion. */
export const deleted = (sandboxId: SandboxId, at: DateTime.Utc): SecurityEvent => ({
  action: "sandbox.deleted",
  at,
  subjects: { sandboxId }
})

/** The security events for these events: a person's decisions, withdrawals and forks. */
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

/** The turn that a person's message gets by these events, or `null`. The message with the reason of a denial comes after the denial. */
const gotten = (events: ReadonlyArray<SandboxEvent>): Uuid | null => {
  for (const event of events) if (event.type === "message.queued") return event.data.message_id
  // A message of feedback tells of it first.
  const [first] = events[0]?.type === "feedback.received" ? events.slice(1) : events
  return first?.type === "turn.updated" && first.data.state === "pending" ? first.turn_id ?? null : null
}

/**
 * The answer of a command, the turn of a message, and the receipt to store: none for a duplicate. A rejection never replaces the
 * receipt of an applied command. `revision` is the sandbox's after the command.
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
