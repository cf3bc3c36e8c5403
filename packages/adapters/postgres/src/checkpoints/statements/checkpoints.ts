/** Checkpoints that can be seen: the table `checkpoints`, by sandbox and number. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { KEPT_CHECKPOINTS } from "@slipway/domain/sandbox/ports/Checkpoints"
import { CheckpointRepo } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { DateTime, Effect, Schema } from "effect"
import { type SqlClient, SqlSchema, type Statement } from "effect/sql"
import { Instant } from "../../sql/Instant.ts"
import { Int8 } from "../../sql/Int8.ts"
import { textArray } from "../../sql/TextArray.ts"

export const checkpointRows = (reads: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Tuple([SandboxId, Schema.Int, Schema.Int]),
    Result: Schema.Struct({
      checkpoint: Schema.Int,
      turnId: Schema.NullOr(Schema.String),
      createdAt: Instant,
      bytes: Int8,
      repos: Schema.Array(CheckpointRepo)
    }),
    execute: ([id, after, limit]) =>
      reads`
      SELECT checkpoint, turn_id AS "turnId", created_at AS "createdAt", bytes, repos FROM checkpoints
      WHERE sandbox_id = ${id} AND checkpoint > ${after}
        AND NOT EXISTS (SELECT FROM sandboxes d WHERE d.id = ${id} AND d.deleted_at IS NOT NULL) ORDER BY checkpoint LIMIT ${limit}`
  })

/** Whether a sandbox `s` is settled. */
export const IS_SETTLED = "s.status IN ('succeeded', 'failed', 'terminated')"

/** The end up to which a sandbox `s` loses all. `own`: times of grants. */
export const endOf = (sql: SqlClient.SqlClient, endedBefore: DateTime.Utc, own: ReadonlyMap<string, DateTime.Utc> = new Map()) => {
  const all = sql`${DateTime.formatIso(endedBefore)}::timestamptz`
  const times = JSON.stringify(Object.fromEntries(Array.from(own, ([grantId, before]) => [grantId, DateTime.formatIso(before)])))
  return own.size === 0 ? all : sql`coalesce((${times}::jsonb ->> s.grant_id::text)::timestamptz, ${all})`
}

/** Whether a checkpoint `k` of a sandbox `s` is no longer kept. A live fork without a checkpoint of its own keeps its start. */
const isForgotten = (sql: SqlClient.SqlClient, before: Statement.Fragment) => {
  const isSettled = sql.literal(IS_SETTLED)
  return sql`(
    CASE WHEN s.deleted_at IS NOT NULL THEN true
      WHEN ${isSettled} THEN k.checkpoint < s.checkpoint OR s.status_at <= ${before}
      ELSE k.checkpoint <= s.checkpoint - ${KEPT_CHECKPOINTS} AND k.checkpoint IS DISTINCT FROM s.restoring END
    AND NOT EXISTS (
      SELECT FROM sandboxes f
      WHERE f.origin ->> 'sandboxId' = k.sandbox_id AND (f.origin ->> 'checkpoint')::integer = k.checkpoint AND f.checkpoint = 0
        AND f.status IN ('queued', 'creating', 'running', 'terminating')
    ))`
}

/** Deletes the forgotten ones. A fork that is being recorded holds its checkpoint: only a second statement sees the fork. */
const forget = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, these: Statement.Fragment, before: Statement.Fragment) {
  const ofThese = sql`k.sandbox_id = ${these} AND s.id = k.sandbox_id AND ${isForgotten(sql, before)}`
  yield* sql`SELECT FROM checkpoints k, sandboxes s WHERE ${ofThese} ORDER BY k.sandbox_id, k.checkpoint FOR UPDATE OF k`
  yield* sql`DELETE FROM checkpoints k USING sandboxes s WHERE ${ofThese}`
})

/** Forgets the checkpoints of a deleted sandbox whose row is locked. Their contents are leftovers then. */
export const forgetCheckpointsOf = (sql: SqlClient.SqlClient, id: SandboxId) => forget(sql, sql`${id}`, sql`now()`)

/**
 * Forgets the checkpoints of up to `limit` sandboxes that are marked, and returns the ids of the sandboxes. Their rows are locked before
 * anything is read: they and their marks change no more, but for a fork's, which is waited for. Another process looks at other rows.
 */
export const forgetCheckpoints = (
  sql: SqlClient.SqlClient,
  endedBefore: DateTime.Utc,
  limit: number,
  own?: ReadonlyMap<string, DateTime.Utc>
) => {
  const isSettled = sql.literal(IS_SETTLED)
  return sql.withTransaction(Effect.gen(function*() {
    const before = endOf(sql, endedBefore, own)
    const rows = yield* sql<{ readonly id: SandboxId }>`
    SELECT s.id FROM checkpoint_marks m JOIN sandboxes s ON s.id = m.sandbox_id WHERE m.due_at <= ${before}
    ORDER BY m.due_at LIMIT ${limit} FOR NO KEY UPDATE OF s SKIP LOCKED`
    if (rows.length === 0) return []
    const ids = rows.map(({ id }) => id)
    const these = sql`ANY(${textArray(ids)}::text[])`
    yield* sql`DELETE FROM checkpoint_marks WHERE sandbox_id = ${these}`
    yield* forget(sql, these, before)
    yield* sql`
    INSERT INTO checkpoint_marks (sandbox_id, due_at)
    SELECT s.id, s.status_at FROM sandboxes s
    WHERE s.id = ${these} AND ${isSettled} AND s.deleted_at IS NULL AND s.status_at > ${before}
      AND EXISTS (SELECT FROM checkpoints k WHERE k.sandbox_id = s.id)
    ON CONFLICT (sandbox_id) DO NOTHING`
    return ids
  }))
}
