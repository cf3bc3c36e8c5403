/** How rows are made and read, and what is written for the events of a sandbox. */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { LogEntry, Recorded } from "../ports/SandboxStore.ts"
import { projectionOf, withMessages } from "../rules/EventProjection.ts"
import { isArrival, isUnsaved, type Leasable, workOf } from "../rules/LeaseRules.ts"
import type { Limits } from "../rules/Policy.ts"
import { isSettled } from "../rules/Sandbox.ts"
import { partId, type SandboxEvent } from "../rules/SandboxEvent.ts"
import { nextDeadline } from "../rules/TimeLimit.ts"
import { Sandbox } from "../schema/Sandbox.ts"
import { fromWire } from "../schema/SandboxEvent.ts"
import { recordCheckpoints } from "./CheckpointRows.ts"
import {
  type EndedBefore,
  type LeasableRow,
  type LeaseRow,
  type MessageRow,
  type SandboxRow,
  StatementError,
  type Statements
} from "./Statements.ts"

const State = Schema.fromJsonString(Sandbox)
const encode = Schema.encodeSync(State, { disableChecks: true })
const decode = Schema.decodeUnknownSync(State, { disableChecks: true })

/** Temporary errors of statements become `StoreUnavailable`; any other dies. */
export const guard = ({ isTemporary }: Statements) => <A, E, R>(self: Effect.Effect<A, E | StatementError, R>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E | StatementError, StatementError> => error instanceof StatementError,
    ({ cause }) => isTemporary(cause) ? Effect.fail(new StoreUnavailable({ cause })) : Effect.die(cause)
  )

/** The sandbox of a row, without the texts of waiting messages if the row has none. */
export const sandboxOf = ({ state, waitingTexts }: Pick<SandboxRow, "state"> & Partial<Pick<SandboxRow, "waitingTexts">>): Sandbox => {
  const sandbox = decode(state)
  return waitingTexts === undefined ? sandbox : { ...sandbox, waitingTexts: JSON.parse(waitingTexts) }
}

/** The limits as a row has them. */
export const limitsText = (limits: Limits): string =>
  JSON.stringify(Object.entries(limits).map(([name, limit]) => [name, Duration.toMillis(limit)]).sort())

/** The fields of a row for time limits. */
export const deadlineOf = (sandbox: Sandbox, limits: Limits): Pick<SandboxRow, "deadlineAt" | "limits"> => ({
  deadlineAt: nextDeadline(sandbox, limits)?.epochMilliseconds ?? null,
  limits: limitsText(limits)
})

/** The field `continues` of a row. */
export const continuedName = (repo: RepoName, branch: string): string => `${repo.toLowerCase()} ${branch}`

const rowOf = (
  sandbox: Sandbox,
  { purgedSeq, workSince }: Pick<SandboxRow, "purgedSeq" | "workSince">,
  now: DateTime.Utc,
  limits: Limits
): SandboxRow => {
  const { approvals, createdAt, grantId, id, lastSeq, repos, status, statusAt, waitingTexts } = sandbox
  const work = workOf(sandbox)
  return {
    id,
    grantId,
    status,
    createdAt: createdAt.epochMilliseconds,
    endedAt: isSettled(status) ? statusAt.epochMilliseconds : null,
    repos: ` ${repos.map(({ fullName }) => fullName.toLowerCase()).join(" ")} `,
    continues: sandbox.continues === null ? null : continuedName(sandbox.continues.repo, sandbox.continues.branch),
    ...deadlineOf(sandbox, limits),
    work,
    workSince: work === null ? null : workSince ?? now.epochMilliseconds,
    unsaved: Number(isUnsaved(sandbox)),
    approvals: approvals.length,
    lastSeq,
    purgedSeq,
    deletedAt: null,
    state: encode({ ...sandbox, waitingTexts: [] }),
    waitingTexts: JSON.stringify(waitingTexts)
  }
}

/** The row that a deleted sandbox leaves. */
export const tombstoneOf = (row: SandboxRow, now: DateTime.Utc): SandboxRow => ({
  id: row.id,
  grantId: row.grantId,
  status: row.status,
  createdAt: row.createdAt,
  endedAt: row.endedAt,
  repos: "",
  continues: null,
  deadlineAt: null,
  limits: row.limits,
  work: null,
  workSince: null,
  unsaved: 0,
  approvals: 0,
  lastSeq: row.lastSeq,
  purgedSeq: row.lastSeq,
  deletedAt: now.epochMilliseconds,
  state: "",
  waitingTexts: "[]"
})

/** Times of ended sandboxes as statements take them. */
export const endedBeforeOf = (all: DateTime.Utc, own: ReadonlyMap<string, DateTime.Utc> = new Map()): EndedBefore => ({
  all: all.epochMilliseconds,
  own: Array.from(own, ([grantId, before]) => ({ grantId, before: before.epochMilliseconds }))
})

/** The lease of a sandbox that never had a worker. */
export const noLease: Omit<LeaseRow, "id"> = {
  fence: 0,
  machine: null,
  until: null,
  drained: 0,
  movedFrom: null,
  moved: null,
  agentSession: null
}

/** A lease's own fields. */
export const leaseOf = ({ agentSession, drained, fence, id, machine, moved, movedFrom, until }: LeaseRow): LeaseRow => ({
  id,
  fence,
  machine,
  until,
  drained,
  movedFrom,
  moved,
  agentSession
})

/** The part of a row that decides who may lease it. */
export const leasableOf = (
  { createdAt, drained, grantId, id, machine, status, unsaved, until, work, workSince }: LeasableRow
): Leasable => ({
  id,
  grantId,
  status,
  work,
  createdAt: DateTime.makeUnsafe(createdAt),
  workSince: workSince === null ? null : DateTime.makeUnsafe(workSince),
  drained: drained === 1,
  unsaved: unsaved === 1,
  lease: machine === null || until === null ? null : { machine, until: DateTime.makeUnsafe(until) }
})

/** A message of a row. */
export const messageOf = ({ createdAt, id, role, seq, text, turnId }: MessageRow) => ({
  seq,
  id,
  turnId,
  role,
  text,
  createdAt: DateTime.makeUnsafe(createdAt)
})

/** Its machine has all of the sandbox's data. */
export const arrive = (statements: Statements, lease: LeaseRow) =>
  statements.save("leases", [{ ...leaseOf(lease), movedFrom: null, moved: null }])

/** Messages that became whole. Read before the events are written: a message without a new text has its earlier one. */
const messagesOf = Effect.fnUntraced(
  function*({ answers, parts }: Statements, { at, messages, sandbox: { id } }: ReturnType<typeof projectionOf>) {
    const spoken = messages.filter(({ role }) => role === "assistant").map(({ id }) => id)
    const known = spoken.length === 0 ? [] : yield* answers(id, spoken)
    const silent = messages.flatMap(({ id, text }) => text === null ? [partId.text(id)] : [])
    const texts = new Map<string | null, string>()
    for (const { part, wire } of silent.length === 0 ? [] : yield* parts(id, silent)) {
      const { event } = fromWire(wire)
      if (event.type === "message.updated") texts.set(part, event.data.text)
    }
    return withMessages(known.map(messageOf), messages, (id) => texts.get(partId.text(id)), at)
      .map(({ createdAt, ...message }) => ({ ...message, sandboxId: id, createdAt: createdAt.epochMilliseconds }))
  }
)

/** Adds published commits, and marks merged ones. */
const keepPushes = Effect.fnUntraced(function*({ pushes, save }: Statements, before: Sandbox, { id, publications }: Sandbox) {
  if (publications === before.publications) return
  const rows = new Map((yield* pushes(id)).map((row) => [`${row.repo} ${row.sha}`, row]))
  for (const { headSha, merged, repo } of publications) {
    const name = repo.toLowerCase()
    const key = `${name} ${headSha}`
    if (headSha !== null && !rows.has(key)) rows.set(key, { sandboxId: id, repo: name, sha: headSha, merged: 0 })
    if (merged === true) { for (const [key, row] of rows) if (row.repo === name) rows.set(key, { ...row, merged: 1 }) }
  }
  yield* save("pushes", [...rows.values()])
})

/** The circumstances of a decision. */
export interface Recording {
  readonly statements: Statements
  readonly limits: Limits
  /** The time of the decision by the clock of its process. */
  readonly at: DateTime.Utc
  /** The time by the store's clock, which leases use. */
  readonly now: DateTime.Utc
  /** The fence of the writing worker's lease; `null`: no worker writes. */
  readonly fence: number | null
}

/** A recorded decision, and what it appended to the log. */
export type Written = Recorded & { readonly entries: ReadonlyArray<LogEntry> }

/** Writes a decision's events, and what follows from them. `row`: of the sandbox before. */
export const record = Effect.fnUntraced(function*(
  { at, fence, limits, now, statements }: Recording,
  before: Sandbox,
  row: Pick<SandboxRow, "purgedSeq" | "workSince">,
  events: ReadonlyArray<SandboxEvent>
) {
  if (events.length === 0) return { before, events, sandbox: before, entries: [] } satisfies Written
  const projection = projectionOf(before, events, at)
  const { approvals, entries, questions, sandbox } = projection
  const { id } = sandbox
  const messages = yield* messagesOf(statements, projection)
  yield* statements.save("sandboxes", [rowOf(sandbox, row, now, limits)])
  yield* statements.save("events", entries.map((entry) => ({ ...entry, sandboxId: id })))
  if (messages.length > 0) yield* statements.save("messages", messages)
  if (approvals.length > 0) {
    yield* statements.save(
      "approvals",
      approvals.map((approval) => ({
        sandboxId: id,
        approvalId: approval.approvalId,
        approval: JSON.stringify(approval)
      }))
    )
  }
  if (questions.length > 0) {
    yield* statements.save(
      "questions",
      questions.map((question) => ({ sandboxId: id, questionId: question.questionId, question: JSON.stringify(question) }))
    )
  }
  yield* keepPushes(statements, before, sandbox)
  yield* recordCheckpoints(statements, { before, sandbox }, events, projection.at, fence)
  if (fence !== null && isArrival(events)) {
    yield* Effect.forEach(yield* statements.leases([id]), (lease) => arrive(statements, lease), { discard: true })
  }
  return { before, events, sandbox, entries } satisfies Written
})
