import { assert, describe, it } from "@effect/vitest"
import {
  decide,
  type Given,
  IncompleteProvider,
  type ProviderChange,
  providers,
  withProviders
} from "@slipway/domain/models/rules/ModelProviders"
import { defaultFile } from "@slipway/domain/models/schema/ModelCatalogueFile"
import { type ModelProvider, ProviderAddress, ProviderKey, ProviderModel, ProviderName } from "@slipway/domain/models/schema/ModelProvider"
import * as DateTime from "effect/DateTime"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

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

  it("is stored as it was given, with a key if there is a new one or the stored one stays", () => {
    const given = { provider: "openai", baseUrl: null, model: "m", isDefault: true } as const
    const hasKey = (before: boolean | null, key: ProviderChange["key"]) => {
      const known = before === null ? null : stored({ provider: "openai", hasKey: before })
      const { hasKey, ...rest } = Result.getOrThrow(decide(known, { ...given, key }, setAt))
      assert.deepStrictEqual(rest, { ...given, setAt })
      return hasKey
    }
    const key = Redacted.make("sk-12345678")
    assert.deepStrictEqual([hasKey(null, "keep"), hasKey(false, "keep"), hasKey(true, "keep")], [false, false, true])
    assert.deepStrictEqual([hasKey(null, key), hasKey(false, key), hasKey(true, key)], [true, true, true])
  })

  it.each(
    [
      ["key", "Enter the key. A stored key is not sent to another address."],
      ["baseUrl", "Enter the address of the server, such as http://localhost:11434/v1."],
      ["model", "Enter the model's name at the server."]
    ] as const
  )("without its %s says what to enter", (needs, message) => assert.strictEqual(new IncompleteProvider({ needs }).message, message))
})

it("each provider has its name, the variable of its key, its agent and its address", () => {
  assert.deepStrictEqual(providers, {
    anthropic: { label: "Anthropic", variable: "ANTHROPIC_API_KEY", agent: "claude", baseUrl: "https://api.anthropic.com/v1" },
    openai: { label: "OpenAI", variable: "OPENAI_API_KEY", agent: "codex", baseUrl: "https://api.openai.com/v1" },
    xai: { label: "xAI", variable: "XAI_API_KEY", agent: "grok", baseUrl: "https://api.x.ai/v1" },
    compatible: { label: "OpenAI-compatible server", variable: "compatible", agent: "opencode", baseUrl: null }
  })
})

describe("a setting of a provider", () => {
  it.each<readonly [string, Schema.Codec<string>, ReadonlyArray<string>, ReadonlyArray<string>]>([
    ["key", ProviderKey, ["12345678", "!".repeat(1000), "~~~~~~~~"], ["1234567", "x".repeat(1001), "12345678 ", " 12345678", "é2345678"]],
    ["address", ProviderAddress, [LOCAL, `http://a/${"x".repeat(491)}`], ["", "ftp://a", `http://a/${"x".repeat(492)}`]],
    ["model", ProviderModel, ["m", "x".repeat(180)], ["", "x".repeat(181)]]
  ])("its %s has limits", (_, schema, good, bad) => {
    for (const text of good) assert.isTrue(Schema.is(schema)(text), text)
    for (const text of bad) assert.isFalse(Schema.is(schema)(text), text)
  })

  it("names one of four providers", () => {
    assert.deepStrictEqual(ProviderName.literals, ["anthropic", "openai", "xai", "compatible"])
  })

  it("whose key is refused says which is taken", () => {
    const refused = Schema.decodeUnknownExit(ProviderKey)("short")
    assert.include(String(refused), "8 to 1000 visible ASCII characters")
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

  it("have the first one of the provider as default where none is driven by its agent", () => {
    const models = defaultFile.models.flatMap((model) =>
      model.upstream?.keyVariable === "ANTHROPIC_API_KEY" ? [{ ...model, agentRuntime: "opencode" as const }] : []
    )
    const first = models[0]
    assert(first !== undefined)
    const file = { ...defaultFile, models: [first, { ...first, id: "anthropic/second" }] }
    assert.strictEqual(withProviders({ ...given, file }, [stored({ isDefault: true })]).default, first.id)
  })

  it("include the one of a server that Slipway does not know, free of cost, with its key or without", () => {
    const server = stored({ provider: "compatible", baseUrl: LOCAL, model: "qwen3", isDefault: true })
    const file = withProviders(given, [server])
    const model = file.models.at(-1)
    assert(model !== undefined)
    assert.deepStrictEqual([file.default, model.id, model.agentRuntime], ["compatible/qwen3", "compatible/qwen3", "opencode"])
    assert.deepStrictEqual(model, {
      id: "compatible/qwen3",
      agentRuntime: "opencode",
      efforts: [],
      approvals: true,
      offline: false,
      upstream: {
        protocol: "openai-chat",
        baseUrl: LOCAL,
        model: "qwen3",
        keyVariable: "compatible",
        prices: { input: 0, cachedInput: 0, cacheWrite: 0, output: 0 },
        contextTokens: 128_000,
        outputTokens: 8192
      }
    })
    const open = withProviders(given, [{ ...server, hasKey: false }])
    assert.deepStrictEqual([open.default, open.models.at(-1)?.upstream?.keyVariable], ["compatible/qwen3", null])
    assert.deepStrictEqual(withProviders({ ...given, isOperators: true }, [server]).models, [...defaultFile.models, model])
    const elsewhere = stored({ baseUrl: LOCAL, model: "claude-opus-5-5" })
    assert.lengthOf(withProviders(given, [elsewhere]).models, defaultFile.models.length)
    assert.lengthOf(withProviders({ ...given, file }, [server]).models, file.models.length)
  })
})
