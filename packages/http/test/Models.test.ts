/** The models and their providers, over the internal API. */
import { assert, layer } from "@effect/vitest"
import { SecretsUnusable } from "@slipway/domain/environment/ports/SecretStore"
import { ModelProviderStore } from "@slipway/domain/models/ports/ModelProviderStore"
import { type Catalogue, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { Effect, Redacted } from "effect"
import { ask, json, layer as http, mintKey } from "../testing/Harness.ts"

const PATH = "/api/internal/v1/models"
const CANARY = "sk-canary-7Qm2-of-the-api"
const LOCAL = "http://localhost:11434/v1"

const catalogue: Catalogue = {
  default: offlineDemo.id,
  models: [offlineDemo],
  unusable: [{ id: "openai/gpt", reason: "It has no account.", problems: ["codex is not installed.", "There is no key."] }],
  setup: { isolation: "Agents run isolated.", environment: new Set(), isOperators: false, apply: Effect.void }
}

layer(http({ catalogue }), { excludeTestServices: true })("models over the API", (it) => {
  it.effect("are listed with every obstacle, and the isolation that is in force", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ scopes: ["models"] })
      assert.deepStrictEqual<unknown>(json(yield* ask(PATH, { key })), {
        data: [
          { id: offlineDemo.id, default: true, usable: true, problems: [] },
          { id: "openai/gpt", default: false, usable: false, problems: ["codex is not installed.", "There is no key."] }
        ],
        isolation: "Agents run isolated."
      })
    }))

  it.effect("have providers, which are set, listed without their keys, and removed", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ scopes: ["models"] })
      const put = (provider: string, body: object) =>
        ask(`${PATH}/providers/${provider}`, { key, method: "PUT", body: JSON.stringify(body) })
      const settings = { baseUrl: null, model: null, default: true }
      const set = yield* put("openai", { key: CANARY, ...settings })
      assert.strictEqual(set.status, 200, set.text)
      const { setAt, ...resource } = json(set)
      assert.match(setAt, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/u)
      assert.deepStrictEqual(resource, { provider: "openai", hasKey: true, ...settings })
      yield* put("compatible", { baseUrl: LOCAL, model: "qwen3", default: false })
      const listed = yield* ask(`${PATH}/providers`, { key })
      assert.deepStrictEqual(json(listed).data.map(({ provider }: { provider: string }) => provider), ["compatible", "openai"])

      // The stored key goes to no other address, and no answer repeats what was sent.
      const refusals = [
        yield* put("openai", { ...settings, baseUrl: LOCAL }),
        yield* put("openai", { ...settings, key: `${CANARY} ` }),
        yield* put("compatible", { ...settings, baseUrl: LOCAL }),
        yield* put("acme", settings)
      ]
      assert.deepStrictEqual(refusals.map(({ status }) => status), [400, 400, 400, 400])
      for (const { text } of [set, listed, ...refusals]) assert.notInclude(text, "7Qm2")
      const keys = yield* ModelProviderStore.use((store) => store.keys)
      assert.deepStrictEqual(Array.from(keys, ([name, one]) => [name, Redacted.value(one)]), [["openai", CANARY]])

      assert.strictEqual((yield* ask(`${PATH}/providers/openai`, { key, method: "DELETE" })).status, 204)
      assert.strictEqual((yield* ask(`${PATH}/providers/openai`, { key, method: "DELETE" })).status, 404)
    }))
})

const locked = (store: ModelProviderStore["Service"]) =>
  ModelProviderStore.of({ ...store, set: () => Effect.fail(new SecretsUnusable({ problem: "The key file /srv/key is empty." })) })

layer(http({ providers: locked }), { excludeTestServices: true })("a service that cannot encrypt keys", (it) => {
  it.effect("refuses a provider with 503 and what to do, and keeps the path of its key file to itself", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ scopes: ["models"] })
      const body = JSON.stringify({ key: CANARY, baseUrl: null, model: null, default: true })
      const refusal = yield* ask(`${PATH}/providers/openai`, { key, method: "PUT", body })
      assert.strictEqual(refusal.status, 503)
      assert.match(refusal.headers["retry-after"] ?? "", /^\d+$/u)
      const { code, message } = json(refusal).error
      assert.strictEqual(code, "unavailable")
      assert.match(message, /^Nothing was saved: .* administrator/u)
      assert.notInclude(refusal.text, "/srv")
    }))
})
