import { assert, describe, it } from "@effect/vitest"
import { choose, offlineDemo, type UpstreamProtocol } from "@slipway/domain/models/schema/ModelCatalogue"
import {
  CatalogueFile,
  check,
  defaultFile,
  type ProfileInfo,
  type Surroundings,
  toCatalogue
} from "@slipway/domain/models/schema/ModelCatalogueFile"
import { ReasoningEffort } from "@slipway/domain/models/schema/ReasoningEffort"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const decode = Schema.decodeUnknownResult(CatalogueFile, { onExcessProperty: "error" })
const encoded = () => structuredClone(defaultFile) as any

const protocols: Readonly<Record<string, UpstreamProtocol>> = {
  claude: "anthropic-messages",
  codex: "openai-responses",
  opencode: "openai-chat",
  grok: "openai-chat"
}
const profileOf = (name: string): ProfileInfo | null => {
  const runtime = name === "offline" ? "opencode" as const : name as ProfileInfo["runtime"]
  if (name !== "offline" && !(name in protocols)) return null
  return {
    runtime,
    toolApprovals: true,
    images: true,
    reasoningEfforts: ReasoningEffort.literals,
    modelProtocol: protocols[name] ?? null,
    problem: null
  }
}
const all: Surroundings = { profile: profileOf, hasKey: () => true, hostProblem: null }
const changed = (change: Partial<ProfileInfo>): Surroundings => ({
  ...all,
  profile: (name) => {
    const info = profileOf(name)
    return info === null ? null : { ...info, ...change }
  }
})
const codex = (surroundings: Surroundings, change: Partial<CatalogueFile["models"][number]> = {}) => {
  const entry = defaultFile.models.find(({ agentRuntime }) => agentRuntime === "codex") ?? assert.fail()
  return check({ default: null, models: [{ ...entry, ...change }] }, surroundings)[0]
}

describe("a catalogue file", () => {
  it("the default is one, and all of it can be used where everything is there", () => {
    assert.deepStrictEqual(Result.getOrThrow(decode(encoded())), defaultFile)
    assert.deepStrictEqual(check(defaultFile, all).filter(({ problems }) => problems.length > 0), [])
    const catalogue = toCatalogue(defaultFile, check(defaultFile, all))
    assert.strictEqual(catalogue.models.length, 5)
    assert.deepStrictEqual(catalogue.unusable, [])
  })

  it("the default has one model of each runtime, at the list price of its provider in micro-USD per million tokens", () => {
    const grok = {
      efforts: ["low", "medium", "high", "xhigh"],
      approvals: true,
      offline: false,
      upstream: {
        protocol: "openai-chat",
        baseUrl: "https://api.x.ai/v1",
        model: "grok-4.7",
        keyVariable: "XAI_API_KEY",
        prices: { input: 2_000_000, cachedInput: 500_000, cacheWrite: 2_000_000, output: 6_000_000 },
        contextTokens: 200_000,
        outputTokens: 64_000
      }
    }
    const efforts = ["low", "medium", "high", "xhigh", "max"]
    assert.deepStrictEqual<unknown>(defaultFile, {
      default: "offline/demo",
      models: [
        offlineDemo,
        {
          id: "anthropic/claude-opus-5-5",
          agentRuntime: "claude",
          efforts,
          approvals: true,
          offline: false,
          upstream: {
            protocol: "anthropic-messages",
            baseUrl: "https://api.anthropic.com/v1",
            model: "claude-opus-5-5",
            keyVariable: "ANTHROPIC_API_KEY",
            prices: { input: 4_000_000, cachedInput: 200_000, cacheWrite: 8_000_000, output: 20_000_000 },
            contextTokens: 1_000_000,
            outputTokens: 128_000
          }
        },
        {
          id: "openai/gpt-6.1-sol",
          agentRuntime: "codex",
          efforts,
          approvals: true,
          offline: false,
          upstream: {
            protocol: "openai-responses",
            baseUrl: "https://api.openai.com/v1",
            model: "gpt-6.1-sol",
            keyVariable: "OPENAI_API_KEY",
            prices: { input: 2_000_000, cachedInput: 100_000, cacheWrite: 2_500_000, output: 10_000_000 },
            contextTokens: 272_000,
            outputTokens: 128_000
          }
        },
        { id: "xai/grok-4.7", agentRuntime: "grok", ...grok },
        { id: "opencode/grok-4.7", agentRuntime: "opencode", ...grok }
      ]
    })
  })

  it("says in its JSON schema what a field means", () => {
    assert.include(JSON.stringify(Schema.toJsonSchemaDocument(CatalogueFile)), "What a creation names")
  })

  it("needs little of an entry", () => {
    const file = decode({ $schema: "models.json", default: null, models: [{ id: "a", agentRuntime: "codex" }] })
    assert.deepStrictEqual(Result.getOrThrow(file).models, [
      { id: "a", agentRuntime: "codex", efforts: [], approvals: true, offline: false, upstream: null }
    ])
  })

  it.each(["http://10.0.0.7:8000", "https://api.openai.com/", "https://api.openai.com/v1"])("takes the address %s", (baseUrl) => {
    const file = encoded()
    file.models[2].upstream.baseUrl = baseUrl
    assert.isTrue(Result.isSuccess(decode(file)))
  })

  it.each<readonly [string, (file: any) => void, RegExp]>([
    ["an unknown field", (file) => file.models[1].price = 1, /models.*1.*price/su],
    ["an unknown field of the upstream", (file) => file.models[1].upstream.key = "sk-1", /upstream.*key/su],
    ["an unknown runtime", (file) => file.models[1].agentRuntime = "aider", /models.*1.*agentRuntime/su],
    ["a price that is no whole number", (file) => file.models[2].upstream.prices.input = 1.5, /prices.*input/su],
    ["an invalid address", (file) => file.models[2].upstream.baseUrl = "api.openai.com", /baseUrl/u],
    ["an address with an account in it", (file) => file.models[2].upstream.baseUrl = "https://u:p@api.openai.com", /baseUrl/u],
    ["an address within another text", (file) => file.models[2].upstream.baseUrl = "see https://api.openai.com", /baseUrl/u],
    ["an address without a host", (file) => file.models[2].upstream.baseUrl = "https:///v1", /baseUrl/u],
    ["two models of one name", (file) => file.models[2].id = file.models[1].id, /anthropic\/claude-opus-5-5 is there twice/u],
    ["a default that is not there", (file) => file.default = "gone", /there is no model gone/u]
  ])("refuses %s, and says where", (_, change, said) => {
    const file = encoded()
    change(file)
    const result = decode(file)
    assert(Result.isFailure(result))
    assert.match(String(result.failure), said)
  })
})

describe("a model that cannot be used", () => {
  const misfit = "It is not set up correctly in this service."
  it.each<readonly [string, Surroundings, string, string]>([
    ["its runtime is not installed", changed({ problem: "Run: slipway agents install codex" }), "Run: slipway agents install codex",
      "Its agent runtime, codex, is not installed."],
    ["its key is not set", { ...all, hasKey: (name) => name !== "OPENAI_API_KEY" },
      "There is no key: run slipway setup, or set OPENAI_API_KEY.", "This service has no account for it."],
    ["its agent lacks an effort", changed({ reasoningEfforts: ["low", "medium", "high", "xhigh"] }),
      "codex does not have these efforts: max.", misfit],
    ["its agent lacks efforts", changed({ reasoningEfforts: ["low"] }), "codex does not have these efforts: medium, high, xhigh, max.",
      misfit],
    ["its agent cannot ask", changed({ toolApprovals: false }),
      "codex cannot hold tool calls until they are approved: set approvals to false.", misfit],
    ["its agent speaks something else", changed({ modelProtocol: "openai-chat" }), "codex speaks openai-chat, not openai-responses.",
      misfit],
    ["its agent speaks to no model", changed({ modelProtocol: null }), "codex speaks to no model, not openai-responses.", misfit],
    ["its profile is of another agent", changed({ runtime: "claude" }), "The profile codex runs claude, not codex.", misfit],
    ["its agent is unknown", { ...all, profile: () => null }, "There is no runtime profile codex.", misfit],
    ["its host isolates nothing", { ...all, hostProblem: "Nothing isolates agents here." }, "Nothing isolates agents here.",
      "This service runs offline models only."]
  ])("is one when %s: the operator hears why, the caller nothing of the machine", (_, surroundings, problem, reason) => {
    const found = codex(surroundings)
    assert.deepStrictEqual(found?.problems, [problem])
    assert.strictEqual(found?.reason, `openai/gpt-6.1-sol cannot be used. ${reason}`)
  })

  it("has no address although its agent needs one", () => {
    assert.deepStrictEqual(codex(all, { upstream: null })?.problems, ["codex needs an upstream that speaks openai-responses."])
  })

  it("is not every model without approvals, a key or isolation: some do not need them", () => {
    const { upstream = null } = defaultFile.models.find(({ agentRuntime }) => agentRuntime === "codex") ?? assert.fail()
    assert(upstream !== null)
    assert.isNull(codex(changed({ toolApprovals: false }), { approvals: false })?.reason)
    assert.isNull(codex({ ...all, hasKey: () => false }, { upstream: { ...upstream, keyVariable: null } })?.reason)
    assert.isNull(check({ default: null, models: [offlineDemo] }, { ...all, hostProblem: "Nothing isolates agents here." })[0]?.reason)
  })

  it("names every obstacle at once to the operator, and the first one to callers", () => {
    const found = codex({ ...changed({ problem: "Run: slipway agents install codex" }), hasKey: () => false, hostProblem: "No boxes." })
    assert(found !== undefined)
    assert.deepStrictEqual(found.problems, [
      "No boxes.",
      "Run: slipway agents install codex",
      "There is no key: run slipway setup, or set OPENAI_API_KEY."
    ])
    assert.strictEqual(found.reason, "openai/gpt-6.1-sol cannot be used. This service runs offline models only.")
    assert.deepStrictEqual(toCatalogue(defaultFile, [found]).unusable?.[0]?.problems, found.problems)
  })

  it("is refused with its reason, also as the default", () => {
    const file = { ...defaultFile, default: "openai/gpt-6.1-sol" }
    const catalogue = toCatalogue(file, check(file, { ...all, hasKey: () => false }))
    for (const model of ["openai/gpt-6.1-sol", undefined]) {
      const chosen = choose(catalogue, { model, reasoningEffort: undefined, toolApprovalMode: "auto", offlineOnly: false })
      assert(Result.isFailure(chosen))
      assert.deepInclude(chosen.failure, {
        _tag: "InvalidModel",
        reason: "openai/gpt-6.1-sol cannot be used. This service has no account for it."
      })
    }
    assert.deepStrictEqual(catalogue.models.map(({ id }) => id), ["offline/demo"])
  })
})
