/** `PartnerStore` on Postgres. */
import { DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Ids } from "@slipway/domain/Ids"
import { naturalId, type PartnerEvent, PartnerFact } from "@slipway/domain/partner/PartnerEvent"
import { PartnerStore, type Telling } from "@slipway/domain/partner/PartnerStore"
import { Int8 } from "./Int8.ts"
import { guard } from "./SqlFailure.ts"

const FeedRow = Schema.Struct({
  id: Schema.String,
  sequence: Int8,
  type: Schema.String,
  data: Schema.Json,
  createdAt: Schema.DateTimeUtcFromDate
})

const encodeFact = Schema.encodeSync(PartnerFact)
const decodeFact = Schema.decodeUnknownEffect(PartnerFact)

/**
 * Adds to the feeds within the transaction it runs in, which should commit next: readers and writers of the same feeds
 * wait for it. Fails as a statement does.
 */
export const makeTell = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const ids = yield* Ids
  return Effect.fnUntraced(function*(tell: ReadonlyArray<Telling>, at: DateTime.Utc) {
    if (tell.length === 0) return
    const tellings = yield* Effect.forEach(tell, ({ fact, grantId }) =>
      Effect.map(ids.uuid7, (id) => ({ grant_id: grantId, id, natural_id: naturalId(fact), ...encodeFact(fact) })))
    yield* sql`SELECT tell_partners(${JSON.stringify(tellings)}::jsonb, ${DateTime.formatIso(at)}::timestamptz)`
  })
})

export const layer = Layer.effect(
  PartnerStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const tellPartners = yield* makeTell

    const rows = SqlSchema.findAll({
      Request: Schema.Struct({ grantId: Schema.String, after: Schema.Int, limit: Schema.Int }),
      Result: FeedRow,
      execute: ({ after, grantId, limit }) => sql`
        SELECT id, sequence, type, data, created_at AS "createdAt" FROM partner_events
        WHERE grant_id = ${grantId} AND sequence > ${after}::bigint ORDER BY sequence LIMIT ${limit}`
    })

    return PartnerStore.of({
      feed: Effect.fn("PartnerStore.feed")(function*(grantId, after, limit) {
        return yield* Effect.forEach(yield* rows({ grantId, after, limit }), ({ data, type, ...place }) =>
          Effect.map(decodeFact({ type, data }), (fact): PartnerEvent => ({ ...fact, ...place })))
      }, guard),

      record: Effect.fn("PartnerStore.record")((decide, at) =>
        guard(sql.withTransaction(Effect.gen(function*() {
          const { result, tell } = yield* decide
          yield* tellPartners(tell, at)
          return result
        })))
      )
    })
  })
)
