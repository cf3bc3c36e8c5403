import { assert, describe, it } from "@effect/vitest"
import { decide, type Given, type ProviderChange, withProviders } from "@slipway/domain/models/rules/ModelProviders"
import { defaultFile } from "@slipway/domain/models/schema/ModelCatalogueFile"
import type { ModelProvider } from "@slipway/domain/models/schema/ModelProvider"
import * as DateTime from "effect/DateTime"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"

const setAt = DateTime.makeUnsafe("2026-11-29T04:40:00.123Z")
const stored = (more: Partial<ModelProvider> = {}): ModelProvider => ({
  provider: "anthropic",
  hasKey: true,
  baseUrl: null,
  model: null,
  isDefault: false,
  setAt,
  ...more
})
const LOCAL = "http://localhost:11434/v1"
const given: Given = { file: defaultFile, isOperators: false, environment: new Set() }
const addressOf = (facts: Given, provider: ModelProvider) =>
  withProviders(facts, [provider]).models.find(({ id }) => id === "anthropic/claude-opus-5-5")?.upstream?.baseUrl

describe("a change of a provider", () => {
  const change: ProviderChange = { provider: "anthropic", key: "keep", baseUrl: null, model: null, isDefault: false }
  it.each<readonly [string, ModelProvider | null, Partial<ProviderChange>, string]>([
    ["keeps its key for the same address", stored({ baseUrl: LOCAL }), { baseUrl: LOCAL }, "stored"],
    ["needs the key again for another address", stored({ baseUrl: LOCAL }), {}, "key"],
    ["takes a new key with a new address", stored({ baseUrl: LOCAL }), { key: Redacted.make("sk-12345678") }, "stored"],
    ["needs a key for an address of its own", null, { baseUrl: LOCAL }, "key"],
    ["leaves the key to the environment", null, {}, "stored"],
    ["needs the address of a free server", null, { provider: "compatible", model: "m" }, "baseUrl"],
    ["needs a model of a free server", null, { provider: "compatible", baseUrl: LOCAL }, "model"],
    ["needs no key for a free server", null, { provider: "compatible", baseUrl: LOCAL, model: "m" }, "stored"]
  ])("%s", (_, before, more, expected) => {
    const result = decide(before, { ...change, ...more }, setAt)
    assert.strictEqual(Result.isSuccess(result) ? "stored" : result.failure.needs, expected)
  })
})

describe("the models", () => {
  it("are those of the file as long as nothing is stored", () => {
    assert.deepStrictEqual(withProviders(given, []), defaultFile)
  })

  it("go to the stored address, but never with a key of the environment or against the operator's file", () => {
    const moved = stored({ baseUrl: LOCAL })
    assert.strictEqual(addressOf(given, moved), LOCAL)
    const own = "https://api.anthropic.com/v1"
    assert.strictEqual(addressOf({ ...given, environment: new Set(["ANTHROPIC_API_KEY"]) }, moved), own)
    assert.strictEqual(addressOf({ ...given, isOperators: true }, moved), own)
  })

  it("have the chosen one as default, unless the operator's file has another", () => {
    const chosen = (provider: ModelProvider, facts = given) => withProviders(facts, [provider]).default
    assert.strictEqual(chosen(stored({ isDefault: true })), "anthropic/claude-opus-5-5")
    assert.strictEqual(chosen(stored({ isDefault: true, model: "claude-opus-5-5" })), "anthropic/claude-opus-5-5")
    assert.strictEqual(chosen(stored({ isDefault: true, model: "unknown" })), "offline/demo")
    assert.strictEqual(chosen(stored({ isDefault: true, provider: "xai" })), "xai/grok-4.7")
    assert.strictEqual(chosen(stored()), "offline/demo")
    assert.strictEqual(chosen(stored({ isDefault: true }), { ...given, isOperators: true }), "offline/demo")
  })

  it("include the one of a server that Slipway does not know, free of cost, with its key or without", () => {
    const server = stored({ provider: "compatible", baseUrl: LOCAL, model: "qwen3", isDefault: true })
    const file = withProviders(given, [server])
    const model = file.models.at(-1)
    assert.deepStrictEqual([file.default, model?.id, model?.agentRuntime], ["compatible/qwen3", "compatible/qwen3", "opencode"])
    assert.deepInclude(model?.upstream, { baseUrl: LOCAL, model: "qwen3", keyVariable: "compatible" })
    assert.strictEqual(withProviders(given, [{ ...server, hasKey: false }]).models.at(-1)?.upstream?.keyVariable, null)
    assert.lengthOf(withProviders({ ...given, file }, [server]).models, file.models.length)
  })
})
