/** `Leases` on Postgres: a lease is columns of the sandbox's row. */
import { Hints, WORK } from "@slipway/domain/Hints"
import { type Leased, LEASE_SECONDS, Leases, StaleLease } from "@slipway/domain/sandbox/Leases"
import { Policy } from "@slipway/domain/sandbox/Policy"
import { Duration, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Renewals } from "./Database.ts"
import { Int8 } from "./Int8.ts"
import { COLUMNS, SandboxRow } from "./SandboxRow.ts"
import { guard } from "./SqlFailure.ts"
import { textArray } from "./TextArray.ts"

const LeasedRow = Schema.Struct({
  ...SandboxRow.fields,
  fence: Int8,
  agentSession: Schema.NullOr(Schema.String),
  elsewhere: Schema.Boolean
})

export const layer = Layer.effect(
  Leases,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const renewals = (yield* Renewals) ?? sql
    const hints = yield* Hints
    const limits = yield* Policy

    const columns = sql.literal(COLUMNS)

    /** In the past at once: storing it rounds to the millisecond, and could round up. */
    const justNow = sql.literal("date_trunc('milliseconds', now())")

    return Leases.of({
      take: Effect.fn("Leases.take")(function*({ machine, worker }, limit, ending = limit) {
        const isFree = sql`(lease_until IS NULL
          OR lease_until <= now() AND machine = ${machine}
          OR lease_until <= now() - make_interval(secs => ${Duration.toSeconds(limits.lost)}))`
        const isLive = sql.literal("status IN ('queued', 'creating', 'running')")
        const elsewhere = sql`machine IS NOT NULL AND machine <> ${machine} AS elsewhere`
        const rows = yield* SqlSchema.findAll({
          Request: Schema.Void,
          Result: LeasedRow,
          // A grant's next one comes behind as many as workers hold of it, and behind its own that waited longer. What another
          // worker is just taking is passed over, so there is one to spare for each.
          execute: () =>
            sql`
            WITH ending AS (
              SELECT id, ${elsewhere} FROM sandboxes WHERE status = 'terminating' AND ${isFree}
              ORDER BY created_at, id LIMIT ${ending} FOR UPDATE SKIP LOCKED
            ), waiting AS (
              SELECT s.id, ${elsewhere} FROM sandboxes s JOIN (
                SELECT id, turn FROM (
                  SELECT id, created_at, free,
                    count(*) FILTER (WHERE lease_until > now()) OVER (PARTITION BY grant_id)
                      + count(*) FILTER (WHERE free) OVER (PARTITION BY grant_id ORDER BY created_at, id) AS turn
                  FROM (SELECT id, grant_id, created_at, lease_until, ${isFree} AS free FROM sandboxes WHERE ${isLive}) live
                ) turns
                WHERE free ORDER BY turn, created_at, id LIMIT ${limit * 2}
              ) next ON next.id = s.id
              WHERE ${isLive} AND ${isFree}
              ORDER BY next.turn, s.created_at, s.id LIMIT ${limit} FOR UPDATE OF s SKIP LOCKED
            )
            UPDATE sandboxes s SET
              fence = s.fence + 1, worker = ${worker}, machine = ${machine},
              lease_until = now() + make_interval(secs => ${LEASE_SECONDS})
            FROM (
              SELECT * FROM ending UNION ALL SELECT * FROM waiting
            ) free
            WHERE s.id = free.id
            RETURNING ${columns}, s.fence, s.agent_session AS "agentSession", free.elsewhere`
        })(undefined)
        return rows.map(({ agentSession, elsewhere, fence, ...sandbox }): Leased => ({
          lease: { sandboxId: sandbox.id, fence },
          sandbox,
          agentSession,
          elsewhere
        }))
      }, guard),

      renew: Effect.fn("Leases.renew")(function*(leases) {
        if (leases.length === 0) return []
        const rows = yield* renewals<{ readonly id: string; readonly fence: bigint }>`
          UPDATE sandboxes s SET lease_until = now() + make_interval(secs => ${LEASE_SECONDS})
          FROM jsonb_to_recordset(${JSON.stringify(leases)}::jsonb) AS l("sandboxId" text, fence bigint)
          WHERE s.id = l."sandboxId" AND s.fence = l.fence RETURNING s.id, s.fence`
        const held = new Map(rows.map(({ fence, id }) => [id, Number(fence)]))
        return leases.filter(({ fence, sandboxId }) => held.get(sandboxId) === fence)
      }, guard),

      endLeases: (machine) =>
        guard(Effect.asVoid(sql`UPDATE sandboxes SET lease_until = ${justNow} WHERE machine = ${machine} AND lease_until > now()`)),

      release: ({ fence, sandboxId }) =>
        guard(Effect.asVoid(sql`UPDATE sandboxes SET lease_until = ${justNow} WHERE id = ${sandboxId} AND fence = ${fence}`)).pipe(
          Effect.andThen(hints.publish([WORK]))
        ),

      saveAgentSession: Effect.fn("Leases.saveAgentSession")(function*({ fence, sandboxId }, agentSession) {
        const rows = yield* sql`
          UPDATE sandboxes SET agent_session = ${agentSession} WHERE id = ${sandboxId} AND fence = ${fence} RETURNING 1`
        if (rows.length === 0) return yield* new StaleLease()
      }, guard),

      machineOf: Effect.fn("Leases.machineOf")(function*(ids) {
        const [row] = yield* sql<{ readonly machine: string }>`
          SELECT machine FROM sandboxes WHERE id = ANY(${textArray(ids)}::text[]) AND machine IS NOT NULL
          GROUP BY machine ORDER BY count(*) DESC LIMIT 1`
        return row?.machine ?? null
      }, guard)
    })
  })
)
