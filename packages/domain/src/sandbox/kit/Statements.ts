/**
 * The statements that `StoreKit` needs of a database, and the rows that they read and write. A row has texts, whole numbers and `null`
 * only; a piece of a checkpoint has bytes. Instants are milliseconds since 1970, and 1 stands for yes. README.md of `@slipway/domain` has
 * a guide.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Uuid } from "../../ids/Ids.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { ListQuery, Message } from "../ports/SandboxStore.ts"
import type { Receipt } from "../rules/Command.ts"
import type { RecordedEntry } from "../rules/EventProjection.ts"
import type { Work } from "../rules/LeaseRules.ts"
import type { SandboxStatus } from "../rules/SandboxEvent.ts"

/** A sandbox. Its key is `id`. */
export interface SandboxRow {
  readonly id: SandboxId
  readonly grantId: string
  readonly status: SandboxStatus
  readonly createdAt: number
  /** `null`: it has not ended. */
  readonly endedAt: number | null
  /** The full names of its repositories in lower case, with a space before and after each. */
  readonly repos: string
  /** `REPO BRANCH` of the branch that it continues, the repository in lower case; `null`: none. */
  readonly continues: string | null
  /** The time of its next time limit under `limits`. */
  readonly deadlineAt: number | null
  /** The limits of the process that calculated `deadlineAt`. */
  readonly limits: string
  readonly work: Work | null
  /** The time since when it has needed a worker; `null`: it needs none. */
  readonly workSince: number | null
  /** Its machine alone may have a part of its data. */
  readonly unsaved: number
  /** Tool calls that wait for a person. */
  readonly approvals: number
  readonly lastSeq: number
  /** `seq` of the newest deleted event. */
  readonly purgedSeq: number
  /** Set: the sandbox was deleted, and of this row only its id, grant, status and times mean something. */
  readonly deletedAt: number | null
  /** All of it but the texts of waiting messages: JSON. */
  readonly state: string
  /** JSON. Up to half a megabyte, which lists do not need. */
  readonly waitingTexts: string
}

/** The newest lease of a sandbox, expired or not. Its key is `id`, the sandbox. Every sandbox has one row. */
export interface LeaseRow {
  readonly id: SandboxId
  /** 0: it never had a worker. */
  readonly fence: number
  readonly machine: string | null
  readonly until: number | null
  /** Its machine gave it up. */
  readonly drained: number
  /** The machine that it was taken from, until the new one has all of its data. */
  readonly movedFrom: string | null
  readonly moved: "drained" | "lost" | null
  readonly agentSession: string | null
}

/** A lease with the fields of its sandbox that decide who may take it. */
export interface LeasableRow
  extends LeaseRow, Pick<SandboxRow, "grantId" | "status" | "createdAt" | "endedAt" | "work" | "workSince" | "unsaved">
{}

/** An event. Its key is `sandboxId` and `seq`. */
export interface EventRow extends RecordedEntry {
  readonly sandboxId: SandboxId
}

/** A message. Its key is `sandboxId` and `seq`. */
export interface MessageRow extends Omit<Message, "createdAt"> {
  readonly sandboxId: SandboxId
  readonly createdAt: number
}

/** An approval. Its key is `sandboxId` and `approvalId`. */
export interface ApprovalRow {
  readonly sandboxId: SandboxId
  readonly approvalId: string
  /** JSON. */
  readonly approval: string
}

/** A request for answers. Its key is `sandboxId` and `questionId`. */
export interface QuestionRow {
  readonly sandboxId: SandboxId
  readonly questionId: string
  /** JSON, with the answers. */
  readonly question: string
}

/** The receipt of a command. Its key is `commandId`. */
export interface ReceiptRow extends Receipt {
  readonly sandboxId: SandboxId
}

/** The binding of an idempotency key. Its key is `grantId`, `route` and `key`. */
export interface KeyRow {
  readonly grantId: string
  readonly route: string
  readonly key: string
  readonly fingerprint: string
  readonly sandboxId: SandboxId
  /** `null`: the key of a creation or a fork. */
  readonly commandId: Uuid | null
  readonly boundAt: number
}

/** The trace of a request. Its key is `sandboxId` and `turnId`, which is empty for the request that created the sandbox. */
export interface TraceRow {
  readonly sandboxId: SandboxId
  readonly turnId: string
  readonly traceparent: string
}

/** An entry of the audit log. It has no key: every row is a new one. The database numbers them. */
export interface AuditRow {
  readonly at: number
  /** JSON. */
  readonly entry: string
}

/** The content that one put of a checkpoint stored. Its key is `sandboxId` and `put`. */
export interface ContentRow {
  readonly sandboxId: SandboxId
  /** 1, 2, …: rising within the sandbox, in the order in which puts began. */
  readonly put: number
  readonly checkpoint: number
  /** The fence of the lease of the put. */
  readonly fence: number
  /** `null`: the put is under way, or failed. */
  readonly bytes: number | null
  /** `null`: it is not recorded, so that nothing can read it. */
  readonly recordedAt: number | null
  /** The turn and the commits of the recorded checkpoint: JSON. */
  readonly details: string | null
  /** Live forks that start with it and have no checkpoint of their own. */
  readonly forks: number
}

/** A part of a content. Its key is `sandboxId`, `put` and `n`. */
export interface PieceRow extends Pick<ContentRow, "sandboxId" | "put"> {
  /** 0, 1, …: the order within the content. */
  readonly n: number
  /** Up to a few MiB. */
  readonly data: Uint8Array
}

/** When to look for contents of a sandbox that nothing needs. Its key is `sandboxId`. */
export interface PruneRow {
  readonly sandboxId: SandboxId
  /** `null`: not before the next change. */
  readonly dueAt: number | null
}

/** The newest setup of a sandbox. Its key is `sandboxId`. */
export interface SetupRow {
  readonly sandboxId: SandboxId
  /** JSON with the output: up to a MiB and a bit. */
  readonly record: string
}

/** A commit that a sandbox published. Its key is `sandboxId`, `repo` and `sha`. It outlives the sandbox's events. */
export interface PushRow {
  readonly sandboxId: SandboxId
  /** In lower case. */
  readonly repo: string
  readonly sha: string
  /** Its pull request was merged. */
  readonly merged: number
}

/** The tables of a store. */
export interface Tables {
  readonly sandboxes: SandboxRow
  readonly leases: LeaseRow
  readonly events: EventRow
  readonly messages: MessageRow
  readonly approvals: ApprovalRow
  readonly questions: QuestionRow
  readonly receipts: ReceiptRow
  readonly keys: KeyRow
  readonly traces: TraceRow
  readonly audit: AuditRow
  readonly contents: ContentRow
  readonly pieces: PieceRow
  readonly prunes: PruneRow
  readonly setups: SetupRow
  readonly pushes: PushRow
}

/** The live sandboxes of one status that have work or not, and a lease that is not over or not. */
export interface CensusRow {
  readonly status: SandboxStatus
  readonly work: number
  readonly held: number
  readonly count: number
  /** The least `createdAt`. */
  readonly oldest: number
  /** The sum of `approvals`. */
  readonly approvals: number
  /** Sandboxes with `approvals`. */
  readonly awaiting: number
}

/** A statement failed. `cause`: the error of the driver. */
export class StatementError extends Schema.TaggedError<StatementError>()("StatementError", { cause: Schema.Defect() }) {}

/** The result of a statement. */
export type Answer<A> = Effect.Effect<A, StatementError>

/** A call of a driver that answers without waiting. With a driver that returns promises use `Effect.tryPromise`, with the same error. */
export const attempt = <A>(call: () => A): Answer<A> => Effect.try({ try: call, catch: (cause) => new StatementError({ cause }) })

/** A database. Each statement is short: the kit decides what is written, and when. */
export interface Statements {
  /**
   * Runs the statements of `body` as one transaction: all is stored for good when it succeeds, and nothing when it fails. Transactions
   * have the effect of running one after the other, in all processes.
   */
  transaction<A, E, R>(body: Effect.Effect<A, E, R>): Effect.Effect<A, E | StatementError, R>
  /** Whether the error passes, such as a lost connection or a full disk. Any other error is a bug, and dies. */
  isTemporary(cause: unknown): boolean
  /** Inserts rows. A row with the key of a stored row replaces it. */
  save<T extends keyof Tables>(table: T, rows: ReadonlyArray<Tables[T]>): Answer<void>

  /** The known ones of these sandboxes with the fences of their leases. */
  sandboxes(ids: ReadonlyArray<SandboxId>): Answer<ReadonlyArray<SandboxRow & Pick<LeaseRow, "fence">>>
  /**
   * A grant's sandboxes without a `deletedAt` by `createdAt`, then `id`, both descending; of one `status` and with a `repo` in `repos` if
   * these are not `null`. The kit takes rows until its page is full, so rows may be read as they are taken.
   */
  list(grantId: string, query: Query): Answer<Iterable<Pick<SandboxRow, "state">>>
  /** The sandbox `own`, and those with these `continues`, by `createdAt`, then `id`, both descending. */
  publishers(continues: string, own: SandboxId | null, limit: number): Answer<ReadonlyArray<Pick<SandboxRow, "grantId" | "id" | "repos">>>
  /** The number of a grant's sandboxes that have not ended. */
  countActive(grantId: string): Answer<number>
  /** Sandboxes that have not ended and have other `limits`. Asked for often, and nearly always without a result. */
  outdated(limits: string, limit: number): Answer<ReadonlyArray<SandboxRow>>
  /** Sandboxes with a `deadlineAt` up to `now`, by `deadlineAt`, then `id`, both ascending. */
  due(now: number, after: Deadline | null, limit: number): Answer<ReadonlyArray<Deadline>>
  /** Sandboxes of these grants that are queued, creating or running. */
  endable(grantIds: ReadonlyArray<string>, limit: number): Answer<ReadonlyArray<Pick<SandboxRow, "id">>>
  /** Sandboxes with an `endedAt` up to `before` and a `purgedSeq` below `lastSeq`. */
  purgeable(before: EndedBefore, limit: number): Answer<ReadonlyArray<SandboxRow>>
  /** Sandboxes with a greater `id` and a `purgedSeq` below `lastSeq`, by `id`. */
  heads(after: string, limit: number): Answer<ReadonlyArray<Pick<SandboxRow, "id" | "lastSeq">>>
  /** Deletes the events, traces and setups of these sandboxes. */
  purge(ids: ReadonlyArray<SandboxId>): Answer<void>
  /** Deletes the events, messages, approvals, questions, receipts with the keys that name them, traces and setup of this sandbox. */
  erase(id: SandboxId): Answer<void>
  /** Counts sandboxes that have not ended, in groups. */
  census(now: number): Answer<ReadonlyArray<CensusRow>>

  /** The leases of the known ones of these sandboxes. */
  leases(ids: ReadonlyArray<SandboxId>): Answer<ReadonlyArray<LeasableRow>>
  /** The leases with this `machine`. */
  leasesOf(machine: string): Answer<ReadonlyArray<LeasableRow>>
  /** The leases of all sandboxes with `work`. */
  readonly leasesWithWork: Answer<ReadonlyArray<LeasableRow>>

  /** A sandbox's events with a greater `seq`, ascending; of these types if given. Rows may be read as they are taken. */
  events(id: SandboxId, after: number, limit: number, types: ReadonlyArray<string> | null): Answer<Iterable<EventRow>>
  /** The newest event of each of these parts. */
  parts(id: SandboxId, parts: ReadonlyArray<string>): Answer<ReadonlyArray<EventRow>>
  /** A sandbox's messages with a greater `seq`, ascending. Rows may be read as they are taken. */
  messages(id: SandboxId, after: number, limit: number): Answer<Iterable<MessageRow>>
  /** The assistant's messages with these ids. */
  answers(id: SandboxId, messageIds: ReadonlyArray<string>): Answer<ReadonlyArray<MessageRow>>
  /** The known ones of these approvals. */
  approvals(id: SandboxId, approvalIds: ReadonlyArray<string>): Answer<ReadonlyArray<ApprovalRow>>
  /** The known ones of these requests for answers. */
  questions(id: SandboxId, questionIds: ReadonlyArray<string>): Answer<ReadonlyArray<QuestionRow>>

  /** The receipts of this command: one or none. */
  receipts(commandId: Uuid): Answer<ReadonlyArray<ReceiptRow>>
  /** The receipts of a sandbox that name this turn. */
  receiptsOf(id: SandboxId, turnId: string): Answer<ReadonlyArray<ReceiptRow>>
  /** The binding of this key: one or none. */
  keys(key: Pick<KeyRow, "grantId" | "route" | "key">): Answer<ReadonlyArray<KeyRow>>
  /** Deletes up to `limit` keys that were bound before this time, and returns their number. */
  purgeKeys(boundBefore: number, limit: number): Answer<number>
  /** The traces of a sandbox for these turns. */
  traces(id: SandboxId, turnIds: ReadonlyArray<string>): Answer<ReadonlyArray<TraceRow>>

  /** The contents of a sandbox's checkpoints, by `put`. */
  contents(id: SandboxId): Answer<ReadonlyArray<ContentRow>>
  /** This piece: one or none. */
  piece(id: SandboxId, put: number, n: number): Answer<ReadonlyArray<Pick<PieceRow, "data">>>
  /** Deletes these contents and their pieces. */
  purgeContents(id: SandboxId, puts: ReadonlyArray<number>): Answer<void>
  /** Sandboxes with a `dueAt` up to `before`, by `dueAt`. */
  prunable(before: EndedBefore, limit: number): Answer<ReadonlyArray<Pick<PruneRow, "sandboxId">>>

  /** The setup of a sandbox: one or none. */
  setups(id: SandboxId): Answer<ReadonlyArray<SetupRow>>
  /** The commits that a sandbox published. */
  pushes(id: SandboxId): Answer<ReadonlyArray<PushRow>>
  /** The commits of any sandbox that are this one and not merged: some of them, if there are any. */
  unmerged(repo: string, sha: string): Answer<ReadonlyArray<PushRow>>

  /** The newest entries with an `at` of at least `since`, newest first. */
  audit(since: number | null, limit: number): Answer<ReadonlyArray<NumberedAuditRow>>
  /** All entries with a greater `seq`, ascending. */
  auditAfter(seq: number): Answer<ReadonlyArray<NumberedAuditRow>>
}

/** A query of a page of a grant's sandboxes. `repo` is in lower case. */
export interface Query extends Pick<ListQuery, "limit" | "status"> {
  readonly after: Pick<SandboxRow, "createdAt" | "id"> | null
  readonly repo: string | null
}

/** A time for the sandboxes of all grants but those with another one. */
export interface EndedBefore {
  readonly all: number
  readonly own: ReadonlyArray<{ readonly grantId: string; readonly before: number }>
}

/** A sandbox with a time limit. */
export interface Deadline extends Pick<SandboxRow, "id"> {
  readonly deadlineAt: number
}

/** `seq` grows in the order in which transactions are committed. */
export interface NumberedAuditRow extends AuditRow {
  readonly seq: number
}
