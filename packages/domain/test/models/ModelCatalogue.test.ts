import { assert, describe, it } from "@effect/vitest"
import { type Catalogue, choose, type Model, ModelCatalogue, offeredBy, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"

const fast: Model = {
  id: "acme/fast",
  agentRuntime: "codex",
  profile: "codex",
  efforts: ["low", "high"],
  approvals: false,
  offline: false,
  upstream: null
}
const catalogue: Catalogue = { default: fast.id, models: [offlineDemo, fast] }
const request = { model: undefined, reasoningEffort: undefined, toolApprovalMode: "auto", offlineOnly: false } as const
const refusal = (result: ReturnType<typeof choose>) => Result.isFailure(result) ? [result.failure._tag, result.failure.message] : null

describe("choosing a model", () => {
  it("takes the named one, and the default when none is named", () => {
    assert.deepStrictEqual(choose(catalogue, { ...request, model: "offline/demo" }), Result.succeed(offlineDemo))
    assert.deepStrictEqual(choose(catalogue, request), Result.succeed(fast))
  })

  const unknown = ["InvalidModel", "There is no such model. Usable models: offline/demo, acme/fast."]

  it("refuses when none is named and there is no default, or the default is gone", () => {
    assert.deepStrictEqual(refusal(choose({ ...catalogue, default: null }, request)), [
      "InvalidModel",
      "No model is named and there is no default one."
    ])
    assert.deepStrictEqual(refusal(choose({ ...catalogue, default: "gone" }, request)), unknown)
  })

  it.each(["unknown", "OFFLINE/demo", "offline/demo ", ""])(
    "refuses %j, which it does not have",
    (model) => assert.deepStrictEqual(refusal(choose(catalogue, { ...request, model })), unknown)
  )

  it("names up to ten models that the key can use to a caller whose model it does not have", () => {
    const named = (count: number, offlineOnly = false) => {
      const models = Array.from({ length: count }, (_, i) => ({ ...fast, id: `m${i}`, offline: i === 1 }))
      return refusal(choose({ default: null, models }, { ...request, model: "unknown", offlineOnly }))?.[1]
    }
    assert.strictEqual(named(0), "There is no such model.")
    assert.strictEqual(named(3, true), "There is no such model. Usable models: m1.")
    const ten = "There is no such model. Usable models: m0, m1, m2, m3, m4, m5, m6, m7, m8, m9"
    assert.strictEqual(named(10), `${ten}.`)
    assert.strictEqual(named(13), `${ten}, and 3 others.`)
  })

  it("gives a test key only what is marked offline, the default included", () => {
    const test = { ...request, offlineOnly: true }
    const refused = ["InvalidModel", "A test key can only use models that are marked offline."]
    assert.deepStrictEqual(refusal(choose(catalogue, { ...test, model: fast.id })), refused)
    assert.deepStrictEqual(refusal(choose(catalogue, test)), refused)
    assert.deepStrictEqual(choose(catalogue, { ...test, model: offlineDemo.id }), Result.succeed(offlineDemo))
  })

  it("takes an effort that is listed, and refuses every other one", () => {
    assert.deepStrictEqual(choose(catalogue, { ...request, reasoningEffort: "high" }), Result.succeed(fast))
    const refused = (efforts: Model["efforts"]) =>
      refusal(choose({ default: fast.id, models: [{ ...fast, efforts }] }, { ...request, reasoningEffort: "none" }))
    assert.deepStrictEqual(refused(["low", "high"]), ["InvalidReasoningEffort", "acme/fast offers these efforts: low, high."])
    assert.deepStrictEqual(refused(["low"]), ["InvalidReasoningEffort", "acme/fast offers these efforts: low."])
    assert.deepStrictEqual(refused([]), ["InvalidReasoningEffort", "acme/fast takes no reasoningEffort."])
  })

  it("never ignores a wish to approve tool calls", () => {
    const prompt = { ...request, toolApprovalMode: "prompt" } as const
    assert.deepStrictEqual(refusal(choose(catalogue, prompt)), [
      "ApprovalsUnsupported",
      "acme/fast cannot ask for approval of tool calls."
    ])
    assert.deepStrictEqual(choose(catalogue, { ...prompt, model: offlineDemo.id }), Result.succeed(offlineDemo))
  })

  it.effect("without configuration there is the offline agent, and it can do everything", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* ModelCatalogue, { default: "offline/demo", models: [offlineDemo] })
      assert.deepStrictEqual(offlineDemo, {
        id: "offline/demo",
        agentRuntime: "opencode",
        profile: "offline",
        efforts: ["none", "low", "medium", "high", "xhigh", "max", "ultra", "ultracode"],
        approvals: true,
        offline: true,
        upstream: null
      })
    }))
})

describe("what workers offer", () => {
  const reason = "acme/fast cannot be used. Its agent runtime, codex, is not installed."
  const without = { usable: [offlineDemo.id], unusable: [{ id: fast.id, reason }] }
  const withAll = { usable: [offlineDemo.id, fast.id], unusable: [] }

  it("is everything while no worker is there, and what one of them can run", () => {
    assert.strictEqual(offeredBy([], catalogue), catalogue)
    assert.deepStrictEqual(offeredBy([without, withAll], catalogue).models, catalogue.models)
  })

  it("leaves out what none can run, with a worker's reason", () => {
    assert.deepStrictEqual(offeredBy([without], catalogue), {
      default: fast.id,
      models: [offlineDemo],
      unusable: [{ id: fast.id, reason }]
    })
    assert.deepStrictEqual(
      offeredBy([{ usable: [], unusable: [] }], { ...catalogue, unusable: [{ id: "x", reason: "y" }] }).unusable,
      [
        { id: "x", reason: "y" },
        { id: offlineDemo.id, reason: "offline/demo cannot be used. No worker offers it." },
        { id: fast.id, reason: "acme/fast cannot be used. No worker offers it." }
      ]
    )
  })
})
