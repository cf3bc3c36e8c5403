/** `SandboxStore` over the statements of a database. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { SandboxId } from "../../ids/SandboxId.ts"
import { sandboxOf as sandboxOfBranch } from "../../source/schema/PullRequest.ts"
import type { Hints } from "../../store/Hints.ts"
import { pageOf } from "../../store/Page.ts"
import { ConcurrencyLimitExceeded } from "../ports/ActiveSandboxes.ts"
import { StaleLease } from "../ports/Leases.ts"
import {
  Appended,
  bytesOf,
  CHECKPOINT_TYPES,
  conclude,
  deleted,
  type CreationRequest,
  type ListQuery,
  type LogEntry,
  MAX_PUBLISHERS,
  SandboxIdTaken,
  SandboxNotFound,
  SandboxStore,
  securityEvents,
  summaryOf,
  topicsOf,
  type Writer
} from "../ports/SandboxStore.ts"
import type { Command } from "../rules/Command.ts"
import { type KeyedRequest, resolve, RETENTION_DAYS, SandboxDeleted } from "../rules/Idempotency.ts"
import type { Limits } from "../rules/Policy.ts"
import { created, initial, mayDelete, type Sandbox } from "../rules/Sandbox.ts"
import type { SandboxEvent } from "../rules/SandboxEvent.ts"
import { Approval } from "../schema/Approval.ts"
import { QuestionState } from "../schema/Question.ts"
import * as AuditLogKit from "./AuditLogKit.ts"
import { holdStart } from "./CheckpointRows.ts"
import { continuedName, guard, messageOf, noLease, record, sandboxOf, tombstoneOf, type Written } from "./Rows.ts"
import { attempt, type EventRow, type KeyRow, type StatementError, type Statements } from "./Statements.ts"

const approvalOf = Schema.decodeUnknownSync(Schema.fromJsonString(Approval))
const questionOf = Schema.decodeUnknownSync(Schema.fromJsonString(QuestionState))

/** Keys of creations, of forks of each sandbox, and of messages to each are separate. */
const creationRoute = (forkOf: SandboxId | null) => forkOf === null ? "sandboxes" : `sandboxes/${forkOf}/fork`
const messagesRoute = (id: SandboxId) => `sandboxes/${id}/messages`

/** The oldest time at which a key was bound that still binds requests. */
export const keptSince = (now: DateTime.Utc): number => DateTime.subtract(now, { days: RETENTION_DAYS }).epochMilliseconds

/** Dependencies of the functions of this store. */
interface Store {
  readonly statements: Statements
  readonly hints: Hints["Service"]
  readonly limits: Limits
  /** `null`: no limit. */
  readonly maxActive: number | null
}

/** A page of rows, which are read as it is filled. */
const page = <Row, A>(rows: Effect.Effect<Iterable<Row>, StatementError>, limit: number, of: (row: Row) => A, bytes: (one: A) => number) =>
  Effect.flatMap(rows, (rows) => attempt(() => pageOf(mapped(rows, of), limit, bytes)))

const entryOf = ({ seq, type, wire }: EventRow): LogEntry => ({ seq, type, wire })

const mapped = function*<A, B>(all: Iterable<A>, of: (one: A) => B): Iterable<B> {
  for (const one of all) yield of(one)
}

/** Commits, then sends the hints. Not interruptible: no caller may stop between the two. */
const commit = <A extends Written, E>({ hints, statements }: Store, body: Effect.Effect<A, E | StatementError>) =>
  Effect.uninterruptible(Effect.tap(
    guard(statements)(statements.transaction(body)),
    (written) => written.events.length === 0 ? Effect.void : hints.publish(topicsOf(written), new Appended(written.entries))
  ))

/** The row of a sandbox, of this grant if one is named. */
const rowOf = Effect.fnUntraced(function*({ sandboxes }: Statements, id: SandboxId, grantId?: string) {
  const [row] = yield* sandboxes([id])
  return row === undefined || row.deletedAt !== null || grantId !== undefined && row.grantId !== grantId
    ? yield* new SandboxNotFound()
    : row
})

/** The row that the writer may change. */
const writable = Effect.fnUntraced(function*(statements: Statements, id: SandboxId, by: Writer) {
  if (by === "policy") return yield* rowOf(statements, id)
  if ("grantId" in by) return yield* rowOf(statements, id, by.grantId)
  const [row] = yield* statements.sandboxes([by.sandboxId])
  return row?.fence === by.fence ? row : yield* new StaleLease()
})

/** The binding of the key by an equal request; `null`: the key is free. */
const boundTo = Effect.fnUntraced(
  function*({ keys }: Statements, key: Pick<KeyRow, "grantId" | "route">, keyed: KeyedRequest, now: DateTime.Utc) {
    const [bound] = yield* keys({ ...key, key: keyed.key })
    if (bound === undefined || bound.boundAt < keptSince(now)) return null
    yield* Effect.fromResult(resolve(bound.fingerprint, keyed))
    return bound
  }
)

/** The present sandbox that the key of a creation made; `null`: the key is free. */
const replay = Effect.fnUntraced(
  function*(statements: Statements, grantId: string, keyed: KeyedRequest, forkOf: SandboxId | null, now: DateTime.Utc) {
    const bound = yield* boundTo(statements, { grantId, route: creationRoute(forkOf) }, keyed, now)
    if (bound === null) return null
    const row = yield* Effect.catchTag(rowOf(statements, bound.sandboxId), "SandboxNotFound", () => Effect.fail(new SandboxDeleted()))
    return sandboxOf(row)
  }
)

const create = Effect.fn("SandboxStore.create")(function*(store: Store, { creation, keyed, trace = null }: CreationRequest) {
  const { limits, maxActive, statements } = store
  const { createdAt: at, grantId, id, origin } = creation
  const now = yield* DateTime.now
  const forkOf = origin?.sandboxId ?? null
  const made = yield* commit(
    store,
    Effect.gen(function*() {
      const known = keyed === null ? null : yield* replay(statements, grantId, keyed, forkOf, now)
      if (known !== null) return { before: known, events: [], sandbox: known, entries: [], replayed: true }
      if ((yield* statements.sandboxes([id])).length > 0) return yield* new SandboxIdTaken()
      if (origin !== null) yield* holdStart(statements, origin)
      if (maxActive !== null && (yield* statements.countActive(grantId)) >= maxActive) {
        return yield* new ConcurrencyLimitExceeded({ limit: maxActive })
      }
      const events = created(creation)
      const recording = { statements, limits, at, now, fence: null }
      const written = yield* record(recording, initial(creation), { purgedSeq: 0, workSince: null }, events)
      yield* statements.save("leases", [{ id, ...noLease }])
      yield* AuditLogKit.append(statements, securityEvents(id, events, at))
      if (trace !== null) yield* statements.save("traces", [{ sandboxId: id, turnId: "", traceparent: trace }])
      if (keyed !== null) {
        const bound = { sandboxId: id, commandId: null, boundAt: now.epochMilliseconds }
        yield* statements.save("keys", [{ grantId, route: creationRoute(forkOf), ...keyed, ...bound }])
      }
      return { ...written, replayed: false }
    })
  )
  return { sandbox: made.sandbox, replayed: made.replayed }
})

const command = Effect.fn("SandboxStore.command")(function*<E>(
  store: Store,
  { grantId, id }: Parameters<SandboxStore["Service"]["find"]>[0],
  command: Command<E>,
  at: DateTime.Utc,
  keyed?: KeyedRequest,
  trace: string | null = null
) {
  const { limits, statements } = store
  const now = yield* DateTime.now
  const route = messagesRoute(id)
  const { before, events, result, sandbox, turnId } = yield* commit(
    store,
    Effect.gen(function*() {
      const row = yield* rowOf(statements, id, grantId)
      const before = sandboxOf(row)
      const bound = keyed === undefined ? null : yield* boundTo(statements, { grantId, route }, keyed, now)
      const [first] = bound?.commandId == null ? [] : yield* statements.receipts(bound.commandId)
      if (first !== undefined) {
        const { commandId, revision, turnId } = first
        return { before, events: [], sandbox: before, entries: [], result: { commandId, revision, outcome: "duplicate" as const }, turnId }
      }
      const commandId = command.identity(before)
      const [receipt = null] = yield* statements.receipts(commandId)
      const [approval] = command.approvalId === null ? [] : yield* statements.approvals(id, [command.approvalId])
      const [question] = command.questionId === undefined ? [] : yield* statements.questions(id, [command.questionId])
      const verdict = yield* Effect.fromResult(command.decide({
        sandbox: before,
        receipt,
        approval: approval === undefined ? null : approvalOf(approval.approval),
        question: question === undefined ? null : questionOf(question.question),
        isMessage: command.messageId !== undefined && (yield* statements.receiptsOf(id, command.messageId)).length > 0
      }))
      const events = verdict.outcome === "applied" ? verdict.events : []
      const written = yield* record({ statements, limits, at, now, fence: null }, before, row, events)
      yield* AuditLogKit.append(statements, securityEvents(id, events, at))
      const { keep, result, turnId } = conclude(written.sandbox.revision, commandId, receipt, verdict)
      if (keep !== null) yield* statements.save("receipts", [{ ...keep, sandboxId: id }])
      if (trace !== null && keep !== null && keep.turnId !== null) {
        yield* statements.save("traces", [{ sandboxId: id, turnId: keep.turnId, traceparent: trace }])
      }
      if (keyed !== undefined && keep?.outcome === "applied") {
        yield* statements.save("keys", [{ grantId, route, ...keyed, sandboxId: id, commandId, boundAt: now.epochMilliseconds }])
      }
      return { ...written, result, turnId }
    })
  )
  return { before, events, sandbox, result, turnId }
})

const change = Effect.fn("SandboxStore.change")(function*<E>(
  store: Store,
  id: SandboxId,
  by: Writer,
  decide: (sandbox: Sandbox) => Result.Result<ReadonlyArray<SandboxEvent>, E>,
  at: DateTime.Utc
) {
  const { limits, statements } = store
  const now = yield* DateTime.now
  const { before, events, sandbox } = yield* commit(
    store,
    Effect.gen(function*() {
      const row = yield* writable(statements, id, by)
      const before = sandboxOf(row)
      const fence = by !== "policy" && "fence" in by ? row.fence : null
      return yield* record({ statements, limits, at, now, fence }, before, row, yield* Effect.fromResult(decide(before)))
    })
  )
  return { before, events, sandbox }
})

const remove = Effect.fn("SandboxStore.delete")(
  function*({ hints, statements }: Store, { grantId, id }: Parameters<SandboxStore["Service"]["find"]>[0], at: DateTime.Utc) {
    const { contents, erase, purgeContents, save, transaction } = statements
    const removed = Effect.gen(function*() {
      const row = yield* rowOf(statements, id, grantId)
      yield* Effect.fromResult(mayDelete(row))
      const { fence, ...sandbox } = row
      yield* save("sandboxes", [tombstoneOf(sandbox, at)])
      yield* save("leases", [{ id, ...noLease, fence: fence + 1 }])
      yield* erase(id)
      yield* purgeContents(id, (yield* contents(id)).flatMap(({ forks, put }) => forks > 0 ? [] : [put]))
      yield* AuditLogKit.append(statements, [deleted(id, at)])
    })
    yield* Effect.uninterruptible(Effect.andThen(guard(statements)(transaction(removed)), hints.publish([id])))
  }
)

/** `SandboxStore` over these statements. */
export const make = (store: Store): SandboxStore["Service"] => {
  const { statements } = store
  const guarded = guard(statements)
  const newest = (grantId: string, { after, limit, repo, status }: ListQuery) =>
    statements.list(grantId, {
      limit,
      status,
      after: after === null ? null : { createdAt: after.createdAt.epochMilliseconds, id: after.id },
      repo: repo?.toLowerCase() ?? null
    })
  return SandboxStore.of({
    create: (request) => create(store, request),
    replay: (grantId, keyed, forkOf) => Effect.flatMap(DateTime.now, (now) => guarded(replay(statements, grantId, keyed, forkOf, now))),
    find: ({ grantId, id }) => guarded(Effect.map(rowOf(statements, id, grantId), sandboxOf)),
    list: (grantId, query) => guarded(page(newest(grantId, query), query.limit, sandboxOf, bytesOf.sandbox)),
    summaries: (grantId, query) => guarded(page(newest(grantId, query), query.limit, (row) => summaryOf(sandboxOf(row)), bytesOf.summary)),
    log: (id, after, limit) => guarded(page(statements.events(id, after, limit, null), limit, entryOf, bytesOf.entry)),
    checkpointLog: (id, after, limit) =>
      guarded(page(statements.events(id, after, limit, CHECKPOINT_TYPES), limit, entryOf, bytesOf.entry)),
    messages: (id, after, limit) => guarded(page(statements.messages(id, after, limit), limit, messageOf, bytesOf.message)),
    publishers: (repo, branch) =>
      guarded(
        Effect.map(
          statements.publishers(continuedName(repo, branch), sandboxOfBranch(branch) ?? null, MAX_PUBLISHERS),
          (rows) => rows.flatMap((row) => row.repos.includes(` ${repo.toLowerCase()} `) ? [{ id: row.id, grantId: row.grantId }] : [])
        )
      ),
    command: (key, asked, at, keyed, trace) => command(store, key, asked, at, keyed, trace),
    change: (id, by, decide, at) => change(store, id, by, decide, at),
    delete: (key, at) => remove(store, key, at),
    traces: (id, turnId) =>
      Effect.map(guarded(statements.traces(id, turnId === null ? [""] : ["", turnId])), (rows) => {
        const of = (turnId: string) => rows.find((row) => row.turnId === turnId)?.traceparent ?? null
        return { creation: of(""), turn: turnId === null ? null : of(turnId) }
      }),
    approvals: (id, approvalIds) =>
      Effect.map(guarded(statements.approvals(id, approvalIds)), (rows) => {
        const known = new Map(rows.map(({ approval, approvalId }) => [approvalId, approvalOf(approval)]))
        return approvalIds.flatMap((approvalId) => known.get(approvalId) ?? [])
      }),
    questions: (id, questionIds) =>
      Effect.map(guarded(statements.questions(id, questionIds)), (rows) => {
        const known = new Map(rows.map(({ question, questionId }) => [questionId, questionOf(question)]))
        return questionIds.flatMap((questionId) => known.get(questionId) ?? [])
      }),
    purged: (id) => Effect.map(guarded(statements.sandboxes([id])), ([row]) => row?.purgedSeq ?? 0)
  })
}
