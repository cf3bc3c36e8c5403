/** A row of `sandboxes`, and what is written of it when something happened. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { StaleLease, type Lease } from "@slipway/domain/sandbox/ports/Leases"
import { type LogEntry, type Recorded, SandboxNotFound } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Approval } from "@slipway/domain/sandbox/rules/Approval"
import { projectionOf, type WholeMessage } from "@slipway/domain/sandbox/rules/EventProjection"
import { isArrival, isUnsaved, workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import type { Limits } from "@slipway/domain/sandbox/rules/Policy"
import { type SandboxEvent, TEXT_PART } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { nextDeadline } from "@slipway/domain/sandbox/rules/TimeLimit"
import { Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import { type DateTime, Result, Schema } from "effect"
import type { Sql } from "./Database.ts"

const State = Schema.fromJsonString(Sandbox)
const encode = Schema.encodeSync(State, { disableChecks: true })
/** The rules for values were checked when they were written. */
export const decode: (state: unknown) => Sandbox = Schema.decodeUnknownSync(State, { disableChecks: true })

export interface Row {
  readonly sandbox: Sandbox
  readonly fence: number
}

/** The row of a sandbox, of this grant if one is named. */
export const rowOf = (sql: Sql, id: SandboxId, grantId: string | null = null): Result.Result<Row, SandboxNotFound> => {
  const row = sql.get(
    "SELECT state, fence FROM sandboxes WHERE id = :id AND (:grantId IS NULL OR grant_id = :grantId)",
    { id, grantId }
  )
  return row === undefined
    ? Result.fail(new SandboxNotFound())
    : Result.succeed({ sandbox: decode(row["state"]), fence: Number(row["fence"]) })
}

/** The row that the lease is of. */
export const leasedRow = (sql: Sql, { fence, sandboxId }: Lease): Result.Result<Row, StaleLease> => {
  const row = Result.getOrNull(rowOf(sql, sandboxId))
  return row?.fence === fence ? Result.succeed(row) : Result.fail(new StaleLease())
}

/** A new row, without events. */
export const insert = (sql: Sql, sandbox: Sandbox): void => {
  sql.run(
    "INSERT INTO sandboxes (id, state, created_at) VALUES (:id, :state, :createdAt)",
    { id: sandbox.id, state: encode(sandbox), createdAt: sandbox.createdAt.epochMilliseconds }
  )
}

/** The time of the decision by its process's clock, and by that of the store, which leases use. */
export interface When {
  readonly at: DateTime.Utc
  readonly now: DateTime.Utc
}

/** Writes events into the log, and what follows from them. `fence`: of the lease under which they are recorded, if one is. */
export const record = (
  sql: Sql,
  before: Sandbox,
  events: ReadonlyArray<SandboxEvent>,
  { at: decidedAt, now }: When,
  limits: Limits,
  fence: number | null = null
): Recorded & { readonly entries: ReadonlyArray<LogEntry> } => {
  if (events.length === 0) return { before, events, sandbox: before, entries: [] }
  const { approvals, at, entries, messages, sandbox } = projectionOf(before, events, decidedAt)
  const { id } = sandbox
  // Before the events: of a message that became whole without a text, the text of before counts.
  for (const message of messages) saveMessage(sql, id, message, at)
  for (const { part, seq, type, wire } of entries) {
    sql.run("INSERT INTO events (sandbox_id, seq, type, part, wire) VALUES (:id, :seq, :type, :part, :wire)", { id, seq, type, part, wire })
  }
  for (const approval of approvals) saveApproval(sql, id, approval)
  const work = workOf(sandbox)
  sql.run(
    `UPDATE sandboxes SET state = :state, unsaved = :unsaved,
      work = :work, work_since = CASE WHEN :work IS NULL THEN NULL ELSE coalesce(work_since, :now) END WHERE id = :id`,
    {
      id,
      state: encode(sandbox),
      unsaved: Number(isUnsaved(sandbox)),
      work,
      now: now.epochMilliseconds
    }
  )
  setDeadline(sql, sandbox, limits)
  if (fence !== null && isArrival(events)) arrive(sql, id)
  return { before, events, sandbox, entries }
}

/** When a time limit comes next, by these limits. */
export const setDeadline = (sql: Sql, sandbox: Sandbox, limits: Limits): void => {
  const deadline = nextDeadline(sandbox, limits)?.epochMilliseconds ?? null
  sql.run("UPDATE sandboxes SET deadline_at = :deadline WHERE id = :id", { id: sandbox.id, deadline })
}

/** Its machine has all of it by now. */
export const arrive = (sql: Sql, id: SandboxId): void => {
  sql.run("UPDATE sandboxes SET moved = NULL, moved_from = NULL WHERE id = :id", { id })
}

const saveApproval = (sql: Sql, id: SandboxId, { approvalId, by, outcome, reason }: Approval): void => {
  sql.run(
    `INSERT INTO approvals (sandbox_id, approval_id, outcome, resolved_by, reason) VALUES (:id, :approvalId, :outcome, :by, :reason)
      ON CONFLICT (sandbox_id, approval_id) DO UPDATE
      SET outcome = excluded.outcome, resolved_by = excluded.resolved_by, reason = excluded.reason`,
    { id, approvalId, outcome, by, reason: reason ?? null }
  )
}

/** The newest text of a message of the agent, or `null` if it was only reasoning. */
const textOf = (sql: Sql, id: SandboxId, messageId: string): string | null => {
  const row = sql.get(
    "SELECT wire -> '$.data' ->> '$.text' AS text FROM events WHERE sandbox_id = :id AND part = :part ORDER BY seq DESC LIMIT 1",
    { id, part: messageId + TEXT_PART }
  )
  return row === undefined ? null : String(row["text"])
}

/** One of the agent that goes on after it was listed stays where it was, with all of its text. */
const saveMessage = (sql: Sql, sandboxId: SandboxId, message: WholeMessage, at: DateTime.Utc): void => {
  const { id, role, seq, turnId } = message
  const text = message.text ?? textOf(sql, sandboxId, id)
  if (text === null) return
  const known = role === "user" ? 0 : sql.run(
    "UPDATE messages SET text = :text WHERE sandbox_id = :sandboxId AND id = :id AND role = 'assistant'",
    { sandboxId, id, text }
  )
  if (known > 0) return
  sql.run(
    `INSERT INTO messages (sandbox_id, seq, id, turn_id, role, text, created_at)
      VALUES (:sandboxId, :seq, :id, :turnId, :role, :text, :at)`,
    { sandboxId, seq, id, turnId, role, text, at: at.epochMilliseconds }
  )
}
