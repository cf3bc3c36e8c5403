/** Translates what the operator's systems tell of into facts for the store. */
import { ClaimResource, InternalApi } from "@slipway/api/InternalApi"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import type { Claim, Recorded } from "@slipway/domain/partner/rules/Attribution"
import { Invoice, Project } from "@slipway/domain/partner/schema/Attribution"
import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { json } from "../../server/reply/Respond.ts"

const toResource = ({ claimed, createdAt, terms }: Claim): ClaimResource => ({
  ...terms,
  status: claimed === null ? "pending" : "claimed",
  createdAt,
  claimedAt: claimed?.at ?? null,
  recipientId: claimed?.recipientId ?? null,
  organizationId: claimed?.organizationId ?? null
})

const answer = <S extends Schema.Encoder<unknown>>(schema: S) => {
  const encode = Schema.encodeSync(schema)
  return (recorded: Recorded, resource: S["Type"]) => json(JSON.stringify(encode(resource)), { status: recorded === "new" ? 201 : 200 })
}
const claimAnswer = answer(ClaimResource)
const projectAnswer = answer(Project)
const invoiceAnswer = answer(Invoice)

export const layer = HttpApiBuilder.group(
  InternalApi,
  "facts",
  Effect.fn(function*(handlers) {
    const store = yield* PartnerStore

    return handlers.handleAll({
      createClaim: Effect.fnUntraced(function*({ params, payload }) {
        const { claim, recorded } = yield* store.createClaim({ ...params, ...payload })
        return claimAnswer(recorded, toResource(claim))
      }),
      claimCredits: Effect.fnUntraced(function*({ params, payload }) {
        const { claim, recorded } = yield* store.claim(params.claimId, payload)
        return claimAnswer(recorded, toResource(claim))
      }),
      connectProject: Effect.fnUntraced(function*({ params, payload }) {
        const project = { ...params, ...payload }
        return projectAnswer(yield* store.connectProject(project), project)
      }),
      payInvoice: Effect.fnUntraced(function*({ params, payload }) {
        const invoice = { ...params, ...payload }
        return invoiceAnswer(yield* store.payInvoice(invoice), invoice)
      })
    })
  })
)
