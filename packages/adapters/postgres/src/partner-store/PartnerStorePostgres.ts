/** `PartnerStore` on Postgres. */
import { Ids } from "@slipway/domain/ids/Ids"
import { balanceOf } from "@slipway/domain/models/rules/Credits"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { type PartnerEvent, PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import { Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { guard } from "../sql/SqlFailure.ts"
import { claim, createClaim } from "./claims.ts"
import { connectProject, payInvoice } from "./records.ts"
import { selectClaims } from "./statements/claims.ts"
import { balanceRows, chargeRows, movementRows } from "./statements/credits.ts"
import { feedRows } from "./statements/feed.ts"
import { makeStore } from "./Store.ts"
import { tell as tellPartners } from "./tell.ts"

const decodeFact = Schema.decodeUnknownEffect(PartnerFact)

export const layer = Layer.effect(
  PartnerStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const store = makeStore(sql, yield* Ids)
    const rows = feedRows(sql)
    const [balances, charges, movements] = [balanceRows(sql), chargeRows(sql), movementRows(sql)]

    return PartnerStore.of({
      feed: Effect.fn("PartnerStore.feed")(function*(grantId, after, limit) {
        return yield* Effect.forEach(
          yield* rows({ grantId, after, limit }),
          ({ data, type, ...place }) => Effect.map(decodeFact({ type, data }), (fact): PartnerEvent => ({ ...fact, ...place }))
        )
      }, guard),

      record: Effect.fn("PartnerStore.record")((decide, at) =>
        guard(sql.withTransaction(Effect.gen(function*() {
          const { result, tell } = yield* decide
          yield* tellPartners(store, tell, at)
          return result
        })))
      ),

      createClaim: (terms) => createClaim(store, terms),
      claim: (claimId, claimant) => claim(store, claimId, claimant),
      connectProject: (project) => connectProject(store, project),
      payInvoice: (invoice) => payInvoice(store, invoice),

      claims: (grantId) => guard(selectClaims(sql, grantId)),

      credits: Effect.fn("PartnerStore.credits")(function*(organizationId) {
        const [{ credits, spent } = { credits: 0, spent: 0 }] = yield* balances(organizationId)
        return {
          balance: balanceOf(credits, spent),
          movements: yield* movements(organizationId),
          charges: yield* charges(organizationId)
        }
      }, guard)
    })
  })
)
