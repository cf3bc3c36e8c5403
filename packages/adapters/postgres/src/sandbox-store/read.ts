/** Reads of sandboxes, their logs, messages and approvals. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type ListQuery, SandboxNotFound } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Approval } from "@slipway/domain/sandbox/rules/Approval"
import type { QuestionState } from "@slipway/domain/sandbox/rules/Question"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect } from "effect"
import * as Batches from "../sql/Batches.ts"
import { guard } from "../sql/SqlFailure.ts"
import { sandboxOf, summaryOf } from "./rows/SandboxRow.ts"
import type { approvalRows } from "./statements/approvals.ts"
import { selectPage, selectSummaries } from "./statements/lists.ts"
import { selectPurged } from "./statements/logs.ts"
import { selectPublishers } from "./statements/publishers.ts"
import type { questionRows } from "./statements/questions.ts"
import { type SandboxKey, selectSandboxes } from "./statements/selectSandboxes.ts"
import { selectTraces } from "./statements/traces.ts"
import type { Store } from "./Store.ts"

/** Sandboxes that one statement reads, and statements at once. */
const READS_AT_ONCE = { most: 16, underWay: 3 }

/** A store with its prepared lookups of approvals and questions. */
export interface ReadingStore extends Store {
  readonly approvalRows: ReturnType<typeof approvalRows>
  readonly questionRows: ReturnType<typeof questionRows>
}

/** `SandboxStore.find`. Call once per store: lookups at the same time share a statement. */
export const makeFind = (store: Pick<Store, "reads">) => {
  const find = Batches.make({
    client: store.reads,
    run: (asked: ReadonlyArray<SandboxKey>) => selectSandboxes(store.reads, asked),
    ...READS_AT_ONCE
  })
  return (key: SandboxKey) =>
    Effect.flatMap(find(key), (row) => row === null ? Effect.fail(new SandboxNotFound()) : Effect.succeed(sandboxOf(row)))
}

export const list = Effect.fn("SandboxStore.list")(function*({ reads }: Store, grantId: string, query: ListQuery) {
  return (yield* selectPage(reads, grantId, query)).map((row) => sandboxOf(row))
}, guard)

export const summaries = Effect.fn("SandboxStore.summaries")(function*({ reads }: Store, grantId: string, query: ListQuery) {
  return (yield* selectSummaries(reads, grantId, query)).map((row) => summaryOf(row))
}, guard)

export const approvalsOf = (store: ReadingStore, id: SandboxId, approvalIds: ReadonlyArray<string>) =>
  Effect.map(
    store.approvalRows({ id, approvalIds }),
    (rows) => rows.map(({ reason, ...approval }): Approval => reason === null ? approval : { ...approval, reason })
  )

export const questionsOf = (store: ReadingStore, id: SandboxId, questionIds: ReadonlyArray<string>) =>
  Effect.map(
    store.questionRows({ id, questionIds }),
    (rows) => rows.map(({ answers, ...state }): QuestionState => answers === null ? state : { ...state, answers })
  )

export const traces = Effect.fn("SandboxStore.traces")(function*({ sql }: Store, id: SandboxId, turnId: string | null) {
  const rows = yield* selectTraces(sql, id, turnId)
  const of = (turn: string) => rows.find((row) => row.turnId === turn)?.traceparent ?? null
  return { creation: of(""), turn: turnId === null ? null : of(turnId) }
}, guard)

export const publishers = Effect.fn("SandboxStore.publishers")(function*({ reads }: Store, repo: RepoName, branch: string) {
  return yield* selectPublishers(reads, repo, branch)
}, guard)

export const purged = Effect.fn("SandboxStore.purged")(function*({ sql }: Store, id: SandboxId) {
  const [row] = yield* selectPurged(sql, id)
  return Number(row?.purged ?? 0)
}, guard)
