import { assert, it } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { Budgets } from "@slipway/domain/models/rules/Budget"
import { type Model, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { Effect, Layer } from "effect"
import { creation, drive, json, layer, mintKey, postJson, refused, running, SANDBOXES } from "../testing/Harness.ts"

const limited: Model = {
  ...offlineDemo,
  id: "acme/limited",
  agentRuntime: "codex",
  profile: "codex",
  offline: false,
  efforts: ["low"],
  approvals: false
}
const catalogue = {
  default: offlineDemo.id,
  models: [offlineDemo, limited],
  unusable: [{ id: "acme/absent", reason: "acme/absent cannot be used. Its agent runtime, grok, is not installed." }]
}

it.layer(layer({ catalogue }), { excludeTestServices: true })("budgets", (it) => {
  const spent = Effect.fnUntraced(function*(grantId: string, microUsd: number) {
    const spending = yield* Spending
    yield* spending.setBudget(grantId, 1_000_000)
    const { sandboxId } = yield* Effect.map(running((yield* mintKey()).key), ({ id }) => ({ sandboxId: id }))
    yield* spending.charge({ id: yield* Ids.use((ids) => ids.uuid7), grantId, sandboxId }, microUsd)
  })

  it.effect("a used up budget refuses creations with 402, and nothing is made", () =>
    Effect.gen(function*() {
      const { grant, key } = yield* mintKey({ grant: "spent" })
      const headers = { "idempotency-key": "before" }
      const before = yield* postJson(SANDBOXES, key, creation, headers)
      yield* spent(grant.id, 1_000_000)
      for (const more of [{}, { "idempotency-key": "after" }]) {
        const reply = yield* postJson(SANDBOXES, key, creation, more)
        refused(reply, 402, "budget_exceeded")
        assert.strictEqual(json(reply).error.message, "The spending budget of this API access grant is used up.")
      }
      // A creation that was accepted before is still found.
      const replay = yield* postJson(SANDBOXES, key, creation, headers)
      assert.deepStrictEqual([replay.status, json(replay).id], [200, json(before).id])
      refused(yield* postJson(SANDBOXES, key, { ...creation, prompt: "Else" }, headers), 409, "idempotency_conflict")

      yield* (yield* Spending).setBudget(grant.id, 1_000_001)
      assert.strictEqual((yield* postJson(SANDBOXES, key, creation, { "idempotency-key": "after" })).status, 201)
    }))

  it.effect("a used up budget refuses messages with 402, repeated ones excepted; another grant is not concerned", () =>
    Effect.gen(function*() {
      const { grant, key } = yield* mintKey({ grant: "talkative" })
      const { id, turn } = yield* running(key)
      const end = (turnId: string) => drive(id, [{ _tag: "EndTurn", turnId, state: "succeeded" }])
      yield* end(turn)
      const messages = `${SANDBOXES}/${id}/messages`
      const headers = { "idempotency-key": "m" }
      const sent = yield* postJson(messages, key, { prompt: "More" }, headers)
      assert.strictEqual(sent.status, 201)
      yield* drive(id, [{ _tag: "StartTurn", turnId: json(sent).turnId }])
      yield* end(json(sent).turnId)
      yield* spent(grant.id, 1_000_000)
      refused(yield* postJson(messages, key, { prompt: "And more" }), 402, "budget_exceeded")
      const again = yield* postJson(messages, key, { prompt: "More" }, headers)
      assert.deepStrictEqual([again.status, json(again).turnId], [200, json(sent).turnId])
      const other = yield* mintKey({ grant: "frugal" })
      assert.strictEqual((yield* postJson(SANDBOXES, other.key, creation)).status, 201)
      refused(yield* postJson(messages, other.key, { prompt: "Mine?" }), 404, "not_found")
    }))

  it.effect("a used up budget of the sandbox itself refuses its messages with 402", () =>
    Effect.gen(function*() {
      const { grant, key } = yield* mintKey({ grant: "own" })
      const { id, turn } = yield* running(key)
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      const spending = yield* Spending
      const call = { id: yield* Ids.use((ids) => ids.uuid7), grantId: grant.id, sandboxId: id, budget: 1_000_000 }
      yield* spending.reserve(call, 1_000_000)
      yield* spending.charge(call, 1_000_000)
      const reply = yield* postJson(`${SANDBOXES}/${id}/messages`, key, { prompt: "More" })
      refused(reply, 402, "budget_exceeded")
      assert.strictEqual(json(reply).error.message, "The spending budget of this sandbox is used up.")
    }))

  it.effect("what a model cannot do is refused at creation, with its code and a sentence", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const asks = [
        [{ model: "acme/unknown" }, "invalid_model", "There is no such model. Usable models: offline/demo, acme/limited."],
        [{ model: "acme/absent" }, "invalid_model", "acme/absent cannot be used. Its agent runtime, grok, is not installed."],
        [{ model: limited.id, reasoningEffort: "max" }, "invalid_reasoning_effort", "acme/limited offers these efforts: low."],
        [{ model: limited.id, toolApprovalMode: "prompt" }, "approvals_unsupported", "acme/limited cannot ask for approval of tool calls."]
      ] as const
      for (const [more, code, message] of asks) {
        const reply = yield* postJson(SANDBOXES, key, { ...creation, ...more })
        refused(reply, 400, code)
        assert.strictEqual(json(reply).error.message, message)
      }
      const made = yield* postJson(SANDBOXES, key, { ...creation, model: limited.id, reasoningEffort: "low" })
      assert.deepStrictEqual([made.status, json(made).agentRuntime, json(made).model], [201, "codex", limited.id])
    }))
})

const LIMIT = 5_000_000

it.layer(layer().pipe(Layer.provide(Layer.succeed(Budgets, { sandbox: LIMIT, grant: null }))), { excludeTestServices: true })(
  "a budget of its own",
  (it) => {
    it.effect("is at most the operator's limit, else 400 with the limit, and a replay is answered", () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey()
        const headers = { "idempotency-key": "own" }
        const reply = yield* postJson(SANDBOXES, key, { ...creation, budgetMicroUsd: LIMIT + 1 }, headers)
        refused(reply, 400, "invalid_request")
        assert.strictEqual(
          json(reply).error.message,
          "budgetMicroUsd: at most 5000000 expected, the operator's limit of a sandbox (5.00 US dollars)"
        )
        assert.strictEqual((yield* postJson(SANDBOXES, key, { ...creation, budgetMicroUsd: LIMIT }, headers)).status, 201)
        assert.strictEqual((yield* postJson(SANDBOXES, key, { ...creation, budgetMicroUsd: LIMIT }, headers)).status, 200)
        refused(yield* postJson(SANDBOXES, key, creation, headers), 409, "idempotency_conflict")
      }))
  }
)
