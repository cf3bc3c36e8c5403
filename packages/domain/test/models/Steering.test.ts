import { assert, describe, it } from "@effect/vitest"
import { canSteer, denialTelling } from "@slipway/domain/models/rules/Steering"
import { ModelCatalogue, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"

const catalogue = {
  default: null,
  models: [offlineDemo, { ...offlineDemo, id: "acme/fast", agentRuntime: "codex", profile: "codex" } as const]
}

describe("steering", () => {
  it("is for codex and claude, and not for opencode and grok", () => {
    const steered = (["opencode", "codex", "claude", "grok"] as const).filter((agentRuntime) =>
      canSteer(catalogue, { model: "gone", agentRuntime })
    )
    assert.deepStrictEqual(steered, ["codex", "claude"])
  })

  it("goes by the profile of the model, so that the offline agent can be steered under the name it reports", () => {
    assert.isTrue(canSteer(catalogue, { model: offlineDemo.id, agentRuntime: "opencode" }))
    assert.isTrue(canSteer(catalogue, { model: "acme/fast", agentRuntime: "codex" }))
    const { defaultValue } = ModelCatalogue
    assert.isTrue(canSteer(defaultValue(), { model: offlineDemo.id, agentRuntime: "opencode" }))
  })

  it("tells why something was denied with the denial, by steering, or with the next message, as the runtime can", () => {
    assert.deepStrictEqual(
      (["claude", "codex", "opencode", "grok"] as const).map((agentRuntime) => denialTelling(catalogue, { model: "gone", agentRuntime })),
      ["answer", "steer", "message", "message"]
    )
    assert.strictEqual(denialTelling(catalogue, { model: offlineDemo.id, agentRuntime: "opencode" }), "answer")
  })
})
