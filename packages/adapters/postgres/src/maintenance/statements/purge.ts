/** Deletion of what is kept for a time only. Rows that another process deletes are skipped. */
import { RETENTION_DAYS } from "@slipway/domain/sandbox/rules/Idempotency"
import type { DateTime } from "effect"
import type { SqlClient } from "effect/sql"
import { endOf } from "../../checkpoints/statements/checkpoints.ts"

/** Events that one statement of a purge takes, 1 s of work: a statement may run for 7 s, and 20 logs may have 512 MiB each. */
const SLICE = { events: 10_000, bytes: 16 * 1024 * 1024 }

/**
 * Deletes the oldest events of up to `limit` sandboxes that ended, a slice at a time, with their setups and traces. A row per sandbox:
 * whether all of its events are gone. The partial index over ended sandboxes gives the order.
 */
export const purgeEvents = (
  sql: SqlClient.SqlClient,
  endedBefore: DateTime.Utc,
  limit: number,
  own?: ReadonlyMap<string, DateTime.Utc>
) => {
  const before = endOf(sql, endedBefore, own)
  return sql<{ readonly done: boolean }>`
            WITH ended AS (
              SELECT id, last_seq, status_at FROM sandboxes s
              WHERE status IN ('succeeded', 'failed', 'terminated') AND (purged_before IS NULL OR purged_before < status_at)
                AND status_at <= ${before} AND deleted_at IS NULL
              ORDER BY status_at LIMIT ${limit} FOR UPDATE SKIP LOCKED
            ), slice AS MATERIALIZED (
              SELECT sandbox_id, seq FROM (
                SELECT e.sandbox_id, e.seq, sum(e.bytes) OVER (ORDER BY ended.status_at, e.sandbox_id, e.seq) - e.bytes AS bytes_before
                FROM ended CROSS JOIN LATERAL (
                  SELECT sandbox_id, seq, octet_length(wire) AS bytes FROM sandbox_events
                  WHERE sandbox_id = ended.id AND seq <= ended.last_seq ORDER BY seq LIMIT ${SLICE.events}
                ) e
                ORDER BY ended.status_at, e.sandbox_id, e.seq LIMIT ${SLICE.events}
              ) oldest WHERE bytes_before < ${SLICE.bytes}
            ), reached AS (
              SELECT ended.id, ended.last_seq, coalesce(max(slice.seq), 0) AS seq
              FROM ended LEFT JOIN slice ON slice.sandbox_id = ended.id GROUP BY ended.id, ended.last_seq
            ), progress AS (
              SELECT id, last_seq, seq, NOT EXISTS (
                SELECT FROM sandbox_events e WHERE e.sandbox_id = reached.id AND e.seq > reached.seq AND e.seq <= reached.last_seq
              ) AS done FROM reached
            ), gone AS (
              DELETE FROM sandbox_events e USING slice WHERE e.sandbox_id = slice.sandbox_id AND e.seq = slice.seq
            ), setups AS (
              DELETE FROM sandbox_setups t USING ended WHERE t.sandbox_id = ended.id
            ), traced AS (
              DELETE FROM traces t USING ended WHERE t.sandbox_id = ended.id
            )
            UPDATE sandboxes s SET
              purged_seq = CASE WHEN p.done THEN p.last_seq ELSE greatest(s.purged_seq, p.seq) END,
              purged_before = CASE WHEN p.done THEN ${before} ELSE s.purged_before END
            FROM progress p WHERE s.id = p.id RETURNING p.done`
}

/** Deletes the oldest expired keys, by the index over their time. */
export const purgeKeys = (sql: SqlClient.SqlClient, limit: number) =>
  sql`
            DELETE FROM idempotency_keys WHERE (grant_id, route, key) IN (
              SELECT grant_id, route, key FROM idempotency_keys
              WHERE created_at < now() - make_interval(days => ${RETENTION_DAYS})
              ORDER BY created_at LIMIT ${limit} FOR UPDATE SKIP LOCKED
            ) RETURNING 1`
