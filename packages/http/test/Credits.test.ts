import { assert, it } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { CreditPrice } from "@slipway/domain/models/rules/Credits"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { Effect, Layer } from "effect"
import { create, creation, drive, json, layer, mintKey, postJson, refused, running, SANDBOXES } from "../testing/Harness.ts"

/** A credit for a cent. */
it.layer(layer().pipe(Layer.provide(Layer.succeed(CreditPrice, 10_000))), { excludeTestServices: true })("credits", (it) => {
  const give = Effect.fnUntraced(
    function*({ id: grantId, organizationId }: { readonly id: string; readonly organizationId: string }, creditAmount: number) {
      const store = yield* PartnerStore
      const claimId = yield* Ids.use((ids) => ids.uuid7)
      yield* store.createClaim({ claimId, grantId, leadId: "lead", variant: "a", creditAmount })
      yield* store.claim(claimId, { recipientId: "user_1", organizationId })
    }
  )

  it.effect("without credits, creations and messages get 402 no_credits, repeated ones excepted, before a budget is looked at", () =>
    Effect.gen(function*() {
      const spending = yield* Spending
      const { grant, key } = yield* mintKey({ grant: "poor" })
      const charge = Effect.fnUntraced(function*(sandboxId: typeof id, microUsd: number) {
        yield* spending.charge({ id: yield* Ids.use((ids) => ids.uuid7), grantId: grant.id, sandboxId }, microUsd)
      })
      const asked = yield* postJson(SANDBOXES, key, creation)
      refused(asked, 402, "no_credits")
      assert.strictEqual(json(asked).error.message, "The organization has no credits left.")

      yield* give(grant, 2)
      const headers = { "idempotency-key": "before" }
      const before = yield* postJson(SANDBOXES, key, creation, headers)
      assert.strictEqual(before.status, 201, before.text)
      const { id, turn } = yield* running(key)
      const messages = `${SANDBOXES}/${id}/messages`
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      const sent = yield* postJson(messages, key, { prompt: "More" }, headers)
      assert.strictEqual(sent.status, 201, sent.text)
      yield* drive(id, [{ _tag: "StartTurn", turnId: json(sent).turnId }, {
        _tag: "EndTurn",
        turnId: json(sent).turnId,
        state: "succeeded"
      }])

      yield* spending.setBudget(grant.id, 20_000)
      yield* charge(id, 19_999)
      yield* create(key)
      yield* charge(id, 1)
      assert.strictEqual((yield* spending.release(id)).usage.creditsChargedMicros, 2_000_000)
      for (const more of [{}, { "idempotency-key": "after" }]) refused(yield* postJson(SANDBOXES, key, creation, more), 402, "no_credits")
      refused(yield* postJson(messages, key, { prompt: "And more" }), 402, "no_credits")
      assert.strictEqual(json(yield* postJson(SANDBOXES, key, creation, headers)).id, json(before).id)
      assert.strictEqual((yield* postJson(messages, key, { prompt: "More" }, headers)).status, 200)

      yield* give(grant, 1)
      refused(yield* postJson(SANDBOXES, key, creation), 402, "budget_exceeded")
      refused(yield* postJson(messages, key, { prompt: "And more" }), 402, "budget_exceeded")
      yield* spending.setBudget(grant.id, null)
      assert.strictEqual((yield* postJson(SANDBOXES, key, creation, { "idempotency-key": "after" })).status, 201)
      assert.strictEqual((yield* postJson(messages, key, { prompt: "And more" })).status, 201)
    }))
})
