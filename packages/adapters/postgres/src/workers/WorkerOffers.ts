/** The models that workers can run, for the processes that answer requests. */
import type { Offer } from "@slipway/domain/models/schema/ModelCatalogue"
import { GONE_SECONDS } from "@slipway/domain/sandbox/ports/Workers"
import { Effect, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { guard } from "../sql/SqlFailure.ts"

/** How often a worker is to be heard of. */
export const HEARD_SECONDS = 20

const OfferRow = Schema.Struct({
  usable: Schema.Array(Schema.String),
  unusable: Schema.Array(
    Schema.Struct({ id: Schema.String, reason: Schema.String, problems: Schema.optionalKey(Schema.Array(Schema.String)) })
  ),
  isolation: Schema.NullOr(Schema.Struct({ kind: Schema.String, problem: Schema.NullOr(Schema.String) }))
})

export const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const current = SqlSchema.findAll({
    Request: Schema.Void,
    Result: OfferRow,
    execute: () =>
      sql`
      SELECT usable, unusable, isolation FROM worker_offers
      WHERE seen_at > now() - make_interval(secs => ${GONE_SECONDS}) ORDER BY worker`
  })
  return {
    /** Also says that the worker is there. */
    publish: (worker: string, { isolation = null, unusable, usable }: Offer) =>
      guard(Effect.asVoid(sql`
        INSERT INTO worker_offers (worker, usable, unusable, isolation)
        VALUES (
          ${worker}, ${JSON.stringify(usable)}::jsonb, ${JSON.stringify(unusable)}::jsonb,
          ${isolation === null ? null : JSON.stringify(isolation)}::jsonb
        )
        ON CONFLICT (worker) DO UPDATE
          SET usable = excluded.usable, unusable = excluded.unusable, isolation = excluded.isolation, seen_at = now()`)),
    /** The worker ends. Those that were killed are cleared away with it. */
    withdraw: (worker: string) =>
      guard(Effect.asVoid(sql`DELETE FROM worker_offers WHERE worker = ${worker} OR seen_at < now() - interval '1 day'`)),
    /** The offers of live workers. */
    current: guard(current(undefined))
  }
})
