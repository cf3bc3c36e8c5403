import { assert, describe, it } from "@effect/vitest"
import { choose, type UpstreamProtocol } from "@slipway/domain/models/schema/ModelCatalogue"
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
const encoded = () => structuredClone(Schema.encodeSync(CatalogueFile)(defaultFile)) as any

const protocols: Readonly<Record<string, UpstreamProtocol>> = {
  claude: "anthropic-messages",
  codex: "openai-responses",
  opencode: "openai-chat",
  grok: "openai-chat"
}
const profileOf = (name: string): ProfileInfo | null => {
  const runtime = name === "offline" ? "opencode" as const : name as ProfileInfo["runtime"]
  if (name !== "offline" && !(name in protocols)) return null
  return { runtime, toolApprovals: true, reasoningEfforts: ReasoningEffort.literals, modelProtocol: protocols[name] ?? null, problem: null }
}
const all: Surroundings = { profile: profileOf, hasKey: () => true, hostProblem: null }
const changed = (change: Partial<ProfileInfo>): Surroundings => ({
  ...all,
  profile: (name) => {
    const info = profileOf(name)
    return info === null ? null : { ...info, ...change }
  }
})
const codex = (surroundings: Surroundings) => check(defaultFile, surroundings).find(({ model }) => model.agentRuntime === "codex")

describe("a catalogue file", () => {
  it("the default is one, and all of it can be used where everything is there", () => {
    assert.isTrue(Result.isSuccess(decode(encoded())))
    assert.deepStrictEqual(check(defaultFile, all).filter(({ problems }) => problems.length > 0), [])
    const catalogue = toCatalogue(defaultFile, check(defaultFile, all))
    assert.strictEqual(catalogue.models.length, 5)
    assert.deepStrictEqual(catalogue.unusable, [])
  })

  it("needs little of an entry", () => {
    const file = decode({ default: null, models: [{ id: "a", agentRuntime: "codex" }] })
    assert.deepStrictEqual(Result.getOrThrow(file).models, [
      { id: "a", agentRuntime: "codex", efforts: [], approvals: true, offline: false, upstream: null }
    ])
  })

  it.each<readonly [string, (file: any) => void, RegExp]>([
    ["an unknown field", (file) => file.models[1].price = 1, /models.*1.*price/su],
    ["an unknown field of the upstream", (file) => file.models[1].upstream.key = "sk-1", /upstream.*key/su],
    ["an unknown runtime", (file) => file.models[1].agentRuntime = "aider", /models.*1.*agentRuntime/su],
    ["a price that is no whole number", (file) => file.models[2].upstream.prices.input = 1.5, /prices.*input/su],
    ["an invalid address", (file) => file.models[2].upstream.baseUrl = "api.openai.com", /baseUrl/u],
    ["an address with an account in it", (file) => file.models[2].upstream.baseUrl = "https://u:p@api.openai.com", /baseUrl/u],
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
  it.each<readonly [string, Surroundings, RegExp, RegExp]>([
    ["its runtime is not installed", changed({ problem: "Run: slipway agents install codex" }), /install codex/u,
      /codex, is not installed/u],
    ["its key is not set", { ...all, hasKey: (name) => name !== "OPENAI_API_KEY" },
      /^There is no key: run slipway setup, or set OPENAI_API_KEY\.$/u, /has no account/u],
    ["its agent lacks an effort", changed({ reasoningEfforts: ["low"] }), /these efforts: medium, high, xhigh, max/u, /not set up/u],
    ["its agent cannot ask", changed({ toolApprovals: false }), /approvals to false/u, /not set up/u],
    ["its agent speaks something else", changed({ modelProtocol: "openai-chat" }), /speaks openai-chat, not openai-responses/u,
      /not set up/u],
    ["its agent is unknown", { ...all, profile: () => null }, /no runtime profile codex/u, /not set up/u],
    ["its host isolates nothing", { ...all, hostProblem: "Nothing isolates agents here." }, /isolates/u, /offline models only/u]
  ])("is one when %s: the operator hears why, the caller nothing of the machine", (_, surroundings, problem, reason) => {
    const found = codex(surroundings)
    assert.lengthOf(found?.problems ?? [], 1)
    assert.match(found?.problems[0] ?? "", problem)
    assert.match(found?.reason ?? "", reason)
    assert.notMatch(found?.reason ?? "", /_KEY|slipway agents/u)
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
