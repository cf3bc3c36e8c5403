/** `Workers` on Postgres: a row for each, which the worker writes over and over. */
import { FORGOTTEN_SECONDS, GONE_SECONDS, MAX_WORKERS, Workers } from "@slipway/domain/sandbox/ports/Workers"
import { Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Instant } from "../sql/Instant.ts"
import { guard } from "../sql/SqlFailure.ts"

const Share = Schema.Struct({ all: Schema.Int, taken: Schema.Int })

const WorkerRow = Schema.Struct({
  worker: Schema.String,
  machine: Schema.String,
  slots: Share,
  agents: Share,
  boots: Share,
  isDraining: Schema.Boolean,
  seenAt: Instant,
  isThere: Schema.Boolean
})

export const layer = Layer.effect(
  Workers,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const rows = SqlSchema.findAll({
      Request: Schema.Void,
      Result: WorkerRow,
      execute: () =>
        sql`
        SELECT worker, machine, draining AS "isDraining", seen_at AS "seenAt",
          jsonb_build_object('all', slots, 'taken', slots_taken) AS slots,
          jsonb_build_object('all', agents, 'taken', agents_taken) AS agents,
          jsonb_build_object('all', boots, 'taken', boots_taken) AS boots,
          seen_at > now() - make_interval(secs => ${GONE_SECONDS}) AS "isThere"
        FROM worker_rooms WHERE seen_at > now() - make_interval(secs => ${FORGOTTEN_SECONDS})
        ORDER BY machine COLLATE "C", worker COLLATE "C" LIMIT ${MAX_WORKERS}`
    })
    return Workers.of({
      report: ({ agents, boots, isDraining, machine, slots, worker }) =>
        guard(Effect.asVoid(sql`
          INSERT INTO worker_rooms (worker, machine, slots, slots_taken, agents, agents_taken, boots, boots_taken, draining)
          VALUES (${worker}, ${machine}, ${slots.all}, ${slots.taken}, ${agents.all}, ${agents.taken}, ${boots.all}, ${boots.taken},
            ${isDraining})
          ON CONFLICT (worker) DO UPDATE SET machine = excluded.machine, slots = excluded.slots, slots_taken = excluded.slots_taken,
            agents = excluded.agents, agents_taken = excluded.agents_taken, boots = excluded.boots, boots_taken = excluded.boots_taken,
            draining = excluded.draining, seen_at = now()`)),
      // Those that were killed are cleared away with it.
      leave: (worker) =>
        guard(Effect.asVoid(sql`
          DELETE FROM worker_rooms WHERE worker = ${worker} OR seen_at < now() - make_interval(secs => ${2 * FORGOTTEN_SECONDS})`)),
      list: guard(rows(undefined))
    })
  })
)
