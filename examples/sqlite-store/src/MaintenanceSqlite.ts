/** `Maintenance` on SQLite. The store's clock is that of its process. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { RETENTION_DAYS } from "@slipway/domain/sandbox/rules/Idempotency"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { DateTime, Effect, Layer, Result } from "effect"
import { Database } from "./Database.ts"
import { decode, setDeadline } from "./SandboxRow.ts"

const LIVE = "status IN ('queued', 'creating', 'running', 'terminating')"

const idsOf = (rows: ReadonlyArray<Readonly<Record<string, unknown>>>) => rows.map(({ id }) => id as SandboxId)

export const layer = Layer.effect(
  Maintenance,
  Effect.gen(function*() {
    const database = yield* Database
    const limits = yield* Policy
    let written = ""
    /** Deadlines follow from limits: they are written anew at the start, and when the limits of this process have changed. */
    const byTheseLimits = Effect.suspend(() => {
      const wanted = JSON.stringify(limits)
      if (wanted === written) return Effect.void
      return Effect.tap(
        database.write((sql) => {
          for (const { state } of sql.all(`SELECT state FROM sandboxes WHERE ${LIVE}`)) setDeadline(sql, decode(state), limits)
          return Result.succeed(undefined)
        }),
        () => Effect.sync(() => void (written = wanted))
      )
    })
    yield* byTheseLimits
    return Maintenance.of({
      now: DateTime.now,

      due: (limit, after = null) =>
        Effect.flatMap(Effect.andThen(byTheseLimits, DateTime.now), (now) =>
          database.read((sql) => {
            const rows = sql.all(
              `SELECT id, deadline_at AS at FROM sandboxes
                WHERE deadline_at <= :now AND (:after IS NULL OR (deadline_at, id) > (:after, :id))
                ORDER BY deadline_at, id LIMIT :limit`,
              { now: now.epochMilliseconds, after: after?.at.epochMilliseconds ?? null, id: after?.id ?? null, limit }
            )
            const ids = idsOf(rows)
            const id = ids.at(-1)
            return { now, ids, last: id === undefined ? null : { at: DateTime.makeUnsafe(Number(rows.at(-1)?.["at"])), id } }
          })),

      ofRevokedGrants: (limit) =>
        database.read((sql) =>
          idsOf(sql.all(
            `SELECT id FROM sandboxes JOIN revoked_grants USING (grant_id)
              WHERE status IN ('queued', 'creating', 'running') LIMIT :limit`,
            { limit }
          ))
        ),

      purgeEvents: (endedBefore, limit) =>
        database.write((sql) => {
          const ended = idsOf(sql.all(
            `SELECT id FROM sandboxes WHERE NOT ${LIVE} AND purged_seq < (state ->> '$.lastSeq')
              AND unixepoch(state ->> '$.statusAt', 'subsec') * 1000 <= :endedBefore LIMIT :limit`,
            { endedBefore: endedBefore.epochMilliseconds, limit }
          ))
          for (const id of ended) {
            sql.run("DELETE FROM events WHERE sandbox_id = :id", { id })
            sql.run("DELETE FROM traces WHERE sandbox_id = :id", { id })
            sql.run("UPDATE sandboxes SET purged_seq = state ->> '$.lastSeq' WHERE id = :id", { id })
          }
          return Result.succeed({ sandboxes: ended.length, more: ended.length === limit })
        }),

      purgeKeys: (limit) =>
        Effect.flatMap(DateTime.now, (now) =>
          database.write((sql) =>
            Result.succeed(sql.run(
              `DELETE FROM keys WHERE rowid IN (SELECT rowid FROM keys WHERE bound_at < :kept ORDER BY bound_at LIMIT :limit)`,
              { kept: DateTime.subtract(now, { days: RETENTION_DAYS }).epochMilliseconds, limit }
            ))
          )),

      left: (machine, ids) =>
        database.read((sql) => {
          const live = new Map(
            sql.all(
              `SELECT id, machine, moved_from AS movedFrom FROM sandboxes
                WHERE id IN (SELECT value FROM json_each(:ids)) AND ${LIVE}`,
              { ids: JSON.stringify(ids) }
            ).map((row) => [row["id"], [row["machine"] ?? machine, row["movedFrom"]]])
          )
          return { over: ids.filter((id) => !live.has(id)), moved: ids.filter((id) => live.get(id)?.includes(machine) === false) }
        }),

      unneeded: (ids) =>
        Effect.flatMap(DateTime.now, ({ epochMilliseconds: now }) =>
          database.read((sql) => {
            const needed = new Set(
              sql.all(
                `SELECT id FROM sandboxes
                  WHERE id IN (SELECT value FROM json_each(:ids)) AND (${LIVE} OR work IS NOT NULL OR coalesce(lease_until, 0) > :now)`,
                { ids: JSON.stringify(ids), now }
              ).map((row) => row["id"])
            )
            return ids.filter((id) => !needed.has(id))
          })),

      heads: (after, limit) =>
        database.read((sql) =>
          sql.all(
            `SELECT id, state ->> '$.lastSeq' AS seq FROM sandboxes
              WHERE id > :after AND purged_seq < (state ->> '$.lastSeq') ORDER BY id LIMIT :limit`,
            { after: after ?? "", limit }
          ).map(({ id, seq }) => ({ id: id as SandboxId, seq: Number(seq) }))
        ),

      census: Effect.flatMap(DateTime.now, ({ epochMilliseconds: now }) =>
        database.read((sql) => {
          const live = { queued: 0, creating: 0, running: 0, terminating: 0 }
          const statuses = sql.all(`SELECT status, count(*) AS n FROM sandboxes WHERE ${LIVE} GROUP BY status`)
          for (const { n, status } of statuses) live[status as keyof typeof live] = Number(n)
          const counts = sql.get(
            `SELECT count(*) FILTER (WHERE lease_until > :now) AS leased,
              count(*) FILTER (WHERE status = 'running' AND work IS NULL AND coalesce(lease_until, 0) <= :now) AS resting,
              count(*) FILTER (WHERE status = 'queued' AND coalesce(lease_until, 0) <= :now) AS bootsWaiting,
              min(created_at) FILTER (WHERE status = 'queued') AS oldestQueuedAt,
              coalesce(sum(json_array_length(state, '$.approvals')), 0) AS pendingApprovals,
              count(*) FILTER (WHERE json_array_length(state, '$.approvals') > 0) AS awaitingApproval
            FROM sandboxes WHERE ${LIVE}`,
            { now }
          )
          const { oldestQueuedAt, ...numbers } = counts as
            & Record<
              "leased" | "resting" | "bootsWaiting" | "pendingApprovals" | "awaitingApproval",
              number
            >
            & { readonly oldestQueuedAt: number | null }
          return { live, ...numbers, oldestQueuedAt: oldestQueuedAt === null ? null : DateTime.makeUnsafe(oldestQueuedAt) }
        }))
    })
  })
)
