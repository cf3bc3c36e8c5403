/**
 * The shared state of `SandboxStore`, `Leases` and `Maintenance` in memory: a row for each sandbox, and the idempotency keys.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { Uuid } from "../../src/ids/Ids.ts"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import type { Checkpoint } from "../../src/sandbox/ports/Checkpoints.ts"
import { type Lease, StaleLease } from "../../src/sandbox/ports/Leases.ts"
import { SandboxNotFound, type LogEntry, type Message, type ListPosition } from "../../src/sandbox/ports/SandboxStore.ts"
import type { SetupRecord } from "../../src/sandbox/ports/Setups.ts"
import type { WorkerReport } from "../../src/sandbox/ports/Workers.ts"
import type { Approval } from "../../src/sandbox/rules/Approval.ts"
import type { Receipt } from "../../src/sandbox/rules/Command.ts"
import { projectionOf, withMessages } from "../../src/sandbox/rules/EventProjection.ts"
import { RETENTION_DAYS } from "../../src/sandbox/rules/Idempotency.ts"
import { isArrival, isUnsaved, type Leasable, workOf } from "../../src/sandbox/rules/LeaseRules.ts"
import type { QuestionState } from "../../src/sandbox/rules/Question.ts"
import { type Creation, initial, isSettled, type Sandbox } from "../../src/sandbox/rules/Sandbox.ts"
import type { SandboxEvent } from "../../src/sandbox/rules/SandboxEvent.ts"
import type { ChangeCounts } from "../../src/source/schema/ChangeCounts.ts"

/** By `createdAt`, then `id`, both descending. */
export const newestFirst = (a: ListPosition, b: ListPosition): number =>
  DateTime.Order(b.createdAt, a.createdAt) || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0)

/** The content of one put of a checkpoint. */
export interface CheckpointContent {
  readonly checkpoint: number
  readonly fence: number
  readonly changes: ReadonlyArray<ChangeCounts> | undefined
  /** `null`: incomplete. */
  bytes: ReadonlyArray<Uint8Array> | null
}

/** A checkpoint in the log. */
export interface CheckpointRow extends Checkpoint {
  readonly content: ReadonlyArray<Uint8Array>
  readonly changes: ReadonlyArray<ChangeCounts> | undefined
}

/** One sandbox with all its data. */
export interface Row {
  sandbox: Sandbox
  readonly log: Array<LogEntry>
  readonly receipts: Map<Uuid, Receipt>
  /** By turn. The creation's trace has an empty key. */
  readonly traces: Map<string, string>
  readonly keys: Map<string, Receipt & { readonly fingerprint: string; readonly boundAt: DateTime.Utc }>
  readonly approvals: Map<string, Approval>
  readonly questions: Map<string, QuestionState>
  /** The text so far, by message. */
  readonly texts: Map<string, string>
  messages: ReadonlyArray<Message>
  /** Ascending. */
  checkpoints: Array<CheckpointRow>
  /** In the order in which the puts began. */
  contents: Array<CheckpointContent>
  fence: number
  leaseUntil: DateTime.Utc | null
  machine: string | null
  /** Its machine gave it up. */
  drained: boolean
  /** The machine it was taken from, and why, until the new machine has all of its data. */
  moved: { readonly from: string; readonly cause: "drained" | "lost" } | null
  /** The time since when it needs a worker; `null`: it needs none. */
  workSince: DateTime.Utc | null
  agentSession: string | null
  setup: SetupRecord | null
  /** All published heads, with the repository in lower case. */
  pushed: ReadonlyArray<{ readonly repo: string; readonly sha: string; readonly merged: boolean }>
  purged: number
  /** `null`: not archived. */
  archivedAt: DateTime.Utc | null
}

/** The row of a new sandbox without events. */
export const newRow = (creation: Creation): Row => ({
  sandbox: initial(creation),
  log: [],
  receipts: new Map(),
  traces: new Map(),
  keys: new Map(),
  approvals: new Map(),
  questions: new Map(),
  texts: new Map(),
  messages: [],
  checkpoints: [],
  contents: [],
  fence: 0,
  leaseUntil: null,
  machine: null,
  drained: false,
  moved: null,
  workSince: null,
  agentSession: null,
  setup: null,
  pushed: [],
  purged: 0,
  archivedAt: null
})

/** Adds published heads, and marks merged ones. */
const keepPushed = (row: Row): void => {
  for (const { headSha, merged, repo } of row.sandbox.publications) {
    const name = repo.toLowerCase()
    if (headSha !== null && !row.pushed.some((one) => one.repo === name && one.sha === headSha)) {
      row.pushed = [...row.pushed, { repo: name, sha: headSha, merged: false }]
    }
    if (merged === true) row.pushed = row.pushed.map((one) => one.repo === name ? { ...one, merged: true } : one)
  }
}

/** Makes the last put of the lease that records a checkpoint visible. */
const keepCheckpoints = (row: Row, events: ReadonlyArray<SandboxEvent>, at: DateTime.Utc, fence: number): void => {
  for (const { data, type } of events) {
    if (type !== "sandbox.checkpoint" || data.checkpoint === undefined) continue
    const { checkpoint, repos = [], turn_id: turnId = null } = data
    const put = row.contents.findLast((content) => content.checkpoint === checkpoint && content.fence === fence)
    if (put === undefined || put.bytes === null) continue
    row.contents = row.contents.filter((content) => content !== put)
    row.checkpoints.push({
      checkpoint,
      turnId,
      createdAt: at,
      bytes: put.bytes.reduce((total, chunk) => total + chunk.length, 0),
      repos,
      content: put.bytes,
      changes: put.changes
    })
  }
}

/**
 * Writes events to the log and updates the row. `decidedAt`: the caller's clock; `now`: the clock of leases. `fence`: of the recording
 * lease, if any. Returns the log entries.
 */
export const record = (
  row: Row,
  events: ReadonlyArray<SandboxEvent>,
  decidedAt: DateTime.Utc,
  now: DateTime.Utc,
  fence: number | null = null
): ReadonlyArray<LogEntry> => {
  const { approvals, at, entries, messages, questions, sandbox, texts } = projectionOf(row.sandbox, events, decidedAt)
  if (fence !== null) keepCheckpoints(row, events, at, fence)
  if (fence !== null && isArrival(events)) row.moved = null
  row.sandbox = sandbox
  keepPushed(row)
  row.workSince = workOf(sandbox) === null ? null : row.workSince ?? now
  row.log.push(...entries)
  for (const approval of approvals) row.approvals.set(approval.approvalId, approval)
  for (const question of questions) row.questions.set(question.questionId, question)
  row.messages = withMessages(row.messages, messages, (id) => row.texts.get(id), at)
  for (const [id, text] of texts) row.texts.set(id, text)
  return entries
}

/** A deleted sandbox. Its `checkpoints` are kept while live forks start with them. */
export interface Tombstone extends Pick<Sandbox, "createdAt" | "grantId" | "id" | "status" | "statusAt">, Pick<Row, "pushed"> {
  readonly deletedAt: DateTime.Utc
  checkpoints: Array<CheckpointRow>
}

/** The binding of a creation's key. */
interface Binding {
  readonly fingerprint: string
  readonly id: SandboxId
  readonly boundAt: DateTime.Utc
}

/** Whether a key has expired and binds no request any more. */
export const isExpired = ({ boundAt }: { readonly boundAt: DateTime.Utc }, now: DateTime.Utc): boolean =>
  DateTime.isLessThan(DateTime.add(boundAt, { days: RETENTION_DAYS }), now)

/** The state of one store. */
export interface SandboxRows {
  readonly rows: Map<SandboxId, Row>
  /** By grant and key. */
  readonly keys: Map<string, Binding>
  /** The remains of deleted sandboxes. */
  readonly deleted: Map<SandboxId, Tombstone>
  /** The last report of each worker, by its name. */
  readonly workers: Map<string, { readonly report: WorkerReport; readonly seenAt: DateTime.Utc }>
}

/** An empty state. */
export const make = (): SandboxRows => ({ rows: new Map(), keys: new Map(), deleted: new Map(), workers: new Map() })

/** Whether a live fork without an own checkpoint starts with this checkpoint. */
export const isStart = ({ rows }: Pick<SandboxRows, "rows">, id: SandboxId, checkpoint: number): boolean =>
  Array.from(rows.values()).some(({ sandbox: { checkpoint: own, origin, status } }) =>
    origin?.sandboxId === id && origin.checkpoint === checkpoint && own === 0 && !isSettled(status)
  )

/** Leaves a tombstone of a sandbox. */
export const bury = (state: SandboxRows, { checkpoints, log, pushed, sandbox }: Row, deletedAt: DateTime.Utc): void => {
  const { createdAt, grantId, id, status, statusAt } = sandbox
  state.rows.delete(id)
  state.deleted.set(id, {
    id,
    grantId,
    createdAt,
    status,
    statusAt,
    deletedAt,
    pushed,
    checkpoints: checkpoints.filter(({ checkpoint }) => isStart(state, id, checkpoint))
  })
  log.length = 0
}

/** The part of a row that decides who may lease it. */
export const leasableOf = ({ drained, leaseUntil, machine, sandbox, workSince }: Row): Leasable => ({
  ...sandbox,
  drained,
  unsaved: isUnsaved(sandbox),
  work: workOf(sandbox),
  workSince,
  lease: leaseUntil === null || machine === null ? null : { machine, until: leaseUntil }
})

/** Whether a worker has its lease. */
export const isHeld = ({ leaseUntil }: Row, now: DateTime.Utc): boolean => leaseUntil !== null && DateTime.isGreaterThan(leaseUntil, now)

/** The row of the lease. */
export const leased = ({ rows }: SandboxRows, { fence, sandboxId }: Lease): Effect.Effect<Row, StaleLease> => {
  const row = rows.get(sandboxId)
  return row?.fence === fence ? Effect.succeed(row) : Effect.fail(new StaleLease())
}

/** The row of a sandbox, of this grant if given. */
export const rowOf = ({ rows }: SandboxRows, id: SandboxId, grantId?: string): Effect.Effect<Row, SandboxNotFound> => {
  const row = rows.get(id)
  return row === undefined || grantId !== undefined && row.sandbox.grantId !== grantId
    ? Effect.fail(new SandboxNotFound())
    : Effect.succeed(row)
}
