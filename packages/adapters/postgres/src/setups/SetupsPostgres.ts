/** `Setups` on Postgres: a row for each sandbox that has a setup. `MaintenancePostgres` deletes it with the sandbox's events. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import { SetupCache, Setups } from "@slipway/domain/sandbox/ports/Setups"
import { DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Reads } from "../sql/Clients.ts"
import { Instant } from "../sql/Instant.ts"
import { Int8 } from "../sql/Int8.ts"
import { guard } from "../sql/SqlFailure.ts"

const SetupRow = Schema.Struct({
  state: Schema.Literals(["running", "succeeded", "failed"]),
  startedAt: Instant,
  ms: Schema.NullOr(Int8),
  cache: SetupCache,
  exitCode: Schema.NullOr(Schema.Int),
  output: Schema.String,
  told: Schema.NullOr(Schema.String)
})

export const layer = Layer.effect(
  Setups,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql

    const rows = SqlSchema.findAll({
      Request: SandboxId,
      Result: SetupRow,
      execute: (id) =>
        reads`
        SELECT state, started_at AS "startedAt", ms, cache, exit_code AS "exitCode", output, told FROM sandbox_setups
        WHERE sandbox_id = ${id}`
    })

    return Setups.of({
      save: Effect.fn("Setups.save")(
        function*({ fence, sandboxId }, { cache, exitCode, ms, output, startedAt, state, told }) {
          const saved = yield* sql`
            INSERT INTO sandbox_setups (sandbox_id, state, started_at, ms, cache, exit_code, output, told)
            SELECT id, ${state}, ${DateTime.formatIso(startedAt)}::timestamptz, ${ms}, ${cache}, ${exitCode}, ${output}, ${told}
            FROM sandboxes WHERE id = ${sandboxId} AND fence = ${fence} FOR NO KEY UPDATE
            ON CONFLICT (sandbox_id) DO UPDATE SET state = excluded.state, started_at = excluded.started_at, ms = excluded.ms,
              cache = excluded.cache, exit_code = excluded.exit_code, output = excluded.output, told = excluded.told
            RETURNING 1`
          if (saved.length === 0) return yield* new StaleLease()
        },
        guard
      ),
      find: (id) => Effect.map(guard(rows(id)), ([row]) => row ?? null),
      // Not of a copy that may lag behind: it is about secrets.
      wasPushedUnmerged: Effect.fn("Setups.wasPushedUnmerged")(function*(repo, sha) {
        const pushed = yield* sql`
          SELECT FROM pushed_commits WHERE sha = ${sha} AND repo = lower(${repo}) AND NOT merged LIMIT 1`
        return pushed.length > 0
      }, guard)
    })
  })
)
