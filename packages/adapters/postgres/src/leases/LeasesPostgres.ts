/** `Leases` on Postgres: a lease is columns of the sandbox's row. */
import { type Leased, LEASE_SECONDS, Leases, StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { Hints, WORK } from "@slipway/domain/store/Hints"
import { Duration, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Renewals } from "../Database.ts"
import { COLUMNS, sandboxOf, WIDTH } from "../sandbox-store/rows/SandboxRow.ts"
import { Int8 } from "../sql/Int8.ts"
import { guard } from "../sql/SqlFailure.ts"
import { textArray } from "../sql/TextArray.ts"

/** What a statement says of a lease after the columns of its sandbox: fence, session of the agent, why it was moved. */
const decodeLease = Schema.decodeUnknownSync(
  Schema.Tuple([Int8, Schema.NullOr(Schema.String), Schema.NullOr(Schema.Literals(["drained", "lost"]))])
)

export const layer = Layer.effect(
  Leases,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const renewals = (yield* Renewals) ?? sql
    const hints = yield* Hints
    const limits = yield* Policy

    const columns = sql.literal(COLUMNS)

    /** One that was given back is nobody's, also where the database's clock went back since. */
    const isHeld = sql.literal("(s.worker IS NOT NULL AND s.lease_until > now())")

    /** In the past at once: storing it rounds to the millisecond, and could round up. */
    const justNow = sql.literal("date_trunc('milliseconds', now())")

    return Leases.of({
      take: Effect.fn("Leases.take")(function*({ machine, worker }, { boots, errands, slots }) {
        /** As `isGivenUp` says. */
        const isGivenUp = sql.literal(`(
          (s.drained OR d.at >= s.lease_until) AND NOT is_unsaved(s.turn, s.checkpoint, s.origin, s.owes_checkpoint, s.pinned))`)
        /** As `mayLease` says, of `sandboxes s LEFT JOIN drained_machines d`. */
        const isFree = sql`(s.lease_until IS NULL OR NOT ${isHeld} AND (
          s.machine = ${machine} OR s.status IN ('succeeded', 'failed') OR coalesce(${isGivenUp}, false)
          OR greatest(s.lease_until, s.work_since) <= now() - make_interval(secs => ${Duration.toSeconds(limits.lost)})))`
        const age = sql.literal("work_since, created_at, id")
        /** Another worker may be just taking some of these: they are passed over, so there is one to spare for each. */
        const next = (work: "boot" | "turn", limit: number) =>
          sql`
          SELECT s.id, s.grant_id, s.work_since, s.created_at, next.held FROM sandboxes s JOIN (
            SELECT id, turn, held FROM waiting WHERE work = ${work} AND free ORDER BY turn, ${age} LIMIT ${limit * 2}
          ) next ON next.id = s.id LEFT JOIN drained_machines d ON d.machine = s.machine
          WHERE s.work = ${work} AND ${isFree}
          ORDER BY next.turn, s.work_since, s.created_at, s.id LIMIT ${limit} FOR UPDATE OF s SKIP LOCKED`
        // As `leaseOrder` says: first of all boots those that find room, then of these and the turns. Only rows with work are read: 2 ms,
        // and as much for the plan, with 200 of them among 100,000 at rest (2026-11-23).
        const rows = yield* sql`
            WITH waiting AS (
              SELECT *, held + count(*) FILTER (WHERE free) OVER (PARTITION BY grant_id, work ORDER BY ${age}) AS turn
              FROM (
                SELECT s.id, s.grant_id, s.created_at, s.work, s.work_since, ${isFree} AS free,
                  count(*) FILTER (WHERE ${isHeld}) OVER (PARTITION BY s.grant_id) AS held
                FROM sandboxes s LEFT JOIN drained_machines d ON d.machine = s.machine WHERE s.work IN ('boot', 'turn')
              ) slotted
            ), boots AS (
              ${next("boot", Math.min(boots, slots))}
            ), turns AS (
              ${next("turn", slots)}
            ), slotted AS (
              SELECT id FROM (
                SELECT id, work_since, created_at, held + row_number() OVER (PARTITION BY grant_id ORDER BY ${age}) AS turn
                FROM (SELECT * FROM boots UNION ALL SELECT * FROM turns) locked
              ) chosen ORDER BY turn, ${age} LIMIT ${slots}
            ), errands AS (
              SELECT s.id FROM sandboxes s LEFT JOIN drained_machines d ON d.machine = s.machine
              WHERE s.work = 'errand' AND ${isFree}
              ORDER BY s.work_since, s.created_at, s.id LIMIT ${errands} FOR UPDATE OF s SKIP LOCKED
            ), taken AS (
              SELECT s.id, nullif(coalesce(s.moved_from, s.machine), ${machine}) AS origin,
                coalesce(s.moved, CASE WHEN ${isGivenUp} THEN 'drained' ELSE 'lost' END) AS cause
              FROM (SELECT * FROM errands UNION ALL SELECT * FROM slotted) chosen JOIN sandboxes s ON s.id = chosen.id
              LEFT JOIN drained_machines d ON d.machine = s.machine
            )
            UPDATE sandboxes s SET
              fence = s.fence + 1, worker = ${worker}, machine = ${machine}, drained = false, moved_from = taken.origin,
              moved = CASE WHEN taken.origin IS NOT NULL THEN taken.cause END,
              moved_fence = CASE WHEN taken.origin IS NOT NULL THEN s.fence + 1 END,
              lease_until = now() + make_interval(secs => ${LEASE_SECONDS})
            FROM taken WHERE s.id = taken.id
            RETURNING ${columns}, s.fence, s.agent_session, s.moved`.values
        return rows.map((values): Leased => {
          const sandbox = sandboxOf(values)
          const [fence, agentSession, moved] = decodeLease(values.slice(WIDTH))
          return { lease: { sandboxId: sandbox.id, fence }, sandbox, agentSession, moved }
        })
      }, guard),

      arrived: Effect.fn("Leases.arrived")(function*({ fence, sandboxId }) {
        const rows = yield* sql`
          UPDATE sandboxes SET moved = NULL, moved_from = NULL, moved_fence = NULL
          WHERE id = ${sandboxId} AND fence = ${fence} RETURNING 1`
        if (rows.length === 0) return yield* new StaleLease()
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
        guard(Effect.asVoid(sql`
          UPDATE sandboxes SET lease_until = ${justNow}
          WHERE machine = ${machine} AND lease_until > now() AND worker IS NOT NULL
            AND (status IN ('queued', 'creating', 'running', 'terminating') OR status IN ('succeeded', 'failed'))`)),

      rest: Effect.fn("Leases.rest")(function*({ fence, sandboxId }) {
        const [row] = yield* sql<{ readonly rested: boolean }>`
          UPDATE sandboxes SET
            lease_until = CASE WHEN work IS NULL THEN ${justNow} ELSE lease_until END,
            worker = CASE WHEN work IS NULL THEN NULL ELSE worker END
          WHERE id = ${sandboxId} AND fence = ${fence} RETURNING work IS NULL AS rested`
        return row === undefined ? yield* new StaleLease() : row.rested
      }, guard),

      release: ({ fence, sandboxId }, { mayMove } = { mayMove: false }) =>
        guard(sql`
          UPDATE sandboxes SET lease_until = ${justNow}, worker = NULL, drained = drained OR ${mayMove}
          WHERE id = ${sandboxId} AND fence = ${fence} RETURNING 1`).pipe(
          Effect.flatMap((rows) => rows.length === 0 ? Effect.void : hints.publish([WORK]))
        ),

      drain: Effect.fn("Leases.drain")(function*(machine, isDraining) {
        if (!isDraining) {
          yield* sql`
            WITH back AS (DELETE FROM drained_machines WHERE machine = ${machine})
            UPDATE sandboxes SET drained = false WHERE machine = ${machine} AND drained`
          return
        }
        // Nothing is left of most machines that went: they are forgotten with the next one that goes.
        yield* sql`
          WITH forgotten AS (
            DELETE FROM drained_machines d WHERE d.machine <> ${machine} AND NOT EXISTS (
              SELECT FROM sandboxes s WHERE s.machine = d.machine AND s.status = 'running' AND s.work IS NULL
            ) AND NOT EXISTS (SELECT FROM sandboxes s WHERE s.machine = d.machine AND s.work IS NOT NULL)
          )
          INSERT INTO drained_machines (machine, at) VALUES (${machine}, now())
          ON CONFLICT (machine) DO UPDATE SET at = excluded.at`
        yield* hints.publish([WORK])
      }, guard),

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
