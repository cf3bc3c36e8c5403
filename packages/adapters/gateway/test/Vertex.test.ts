import { assert, describe, it } from "@effect/vitest"
import type { Upstream, UpstreamProtocol } from "@slipway/domain/models/schema/ModelCatalogue"
import { Effect } from "effect"
import * as CloudCredentials from "../src/credentials/CloudCredentials.ts"
import * as Gateway from "../testing/Gateway.ts"
import * as Google from "../testing/Google.ts"
import * as Provider from "../testing/Provider.ts"
import { withVariables } from "../testing/Variables.ts"

const LOCATION = "/v1/projects/acme/locations/europe-west1"

const ofFile = ({ file }: Google.Identity) => ({ GOOGLE_APPLICATION_CREDENTIALS: file })

/** A session on a machine with this identity of Google. */
const started = Effect.fnUntraced(function*(
  protocol: UpstreamProtocol,
  path: string,
  more: Partial<Upstream> = {},
  variables: (identity: Google.Identity) => Readonly<Record<string, string>> = ofFile
) {
  const account = yield* Google.identity
  yield* withVariables(variables(account), ["GOOGLE_", "GCE_", "GCLOUD_", "METADATA_"])
  const provider = yield* Provider.start
  const baseUrl = `${provider.baseUrl.replace(/\/v1$/u, "")}${LOCATION}${path}`
  const session = yield* Gateway.open(Gateway.upstreamOf(protocol, baseUrl, { auth: "google", keyVariable: null, ...more }))
  return { google: account, provider, ...session }
})

const clock = { now: Date.now() }
const layer = Gateway.layer({ clouds: CloudCredentials.ofEnvironment({}, () => clock.now) })
const asking = { model: "any", max_tokens: 100, stream: true, messages: [{ role: "user", content: "Hi" }] }
const CLAUDE = "claude-opus-5-5@20261001"

const answered = (google: Google.Identity): Provider.Provider["answer"] => ({ headers, response }) => {
  if (headers.authorization !== `Bearer ${google.tokens.at(-1)}`) {
    return Provider.json(response, 401, { error: { code: 401, message: `bad token ${headers.authorization}`, status: "UNAUTHENTICATED" } })
  }
  response.writeHead(200, { "content-type": "text/event-stream" })
  response.end(Provider.sse(
    { type: "message_start", message: { usage: { input_tokens: 100, output_tokens: 1 } } },
    { type: "message_delta", usage: { output_tokens: 7 } }
  ))
}

describe("a request to Vertex AI", () => {
  it.effect("for Claude has Vertex's address, form and token", () =>
    Effect.gen(function*() {
      const { access, account, google, provider } = yield* started("anthropic-messages", "", { model: CLAUDE })
      provider.answer = answered(google)
      const reply = yield* Provider.ask(access, "/v1/messages?beta=true", {
        ...asking,
        context_management: { edits: [{ type: "clear_tool_uses_20250919" }] },
        system: [{ type: "text", text: "Be brief", cache_control: { type: "ephemeral", scope: "global" } }]
      }, { "anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219,context-management-2025-06-27" })
      assert.strictEqual(reply.status, 200, reply.text)
      const asked = provider.asked[0] ?? assert.fail("nothing was asked")
      assert.strictEqual(asked.url, `${LOCATION}/publishers/anthropic/models/claude-opus-5-5@20261001:streamRawPredict`)
      assert.deepStrictEqual(asked.body, {
        anthropic_version: "vertex-2023-10-16",
        max_tokens: 100,
        stream: true,
        messages: [{ role: "user", content: "Hi" }],
        context_management: { edits: [{ type: "clear_tool_uses_20250919" }] },
        system: [{ type: "text", text: "Be brief", cache_control: { type: "ephemeral" } }]
      })
      assert.deepStrictEqual([asked.headers["anthropic-beta"], asked.headers["x-api-key"]], ["context-management-2025-06-27", undefined])
      assert.strictEqual((yield* account).usage.costMicroUsd, 100 * 10 + 7 * 30)

      provider.answer = ({ response }) => Provider.json(response, 200, { input_tokens: 5 })
      yield* Provider.ask(access, "/v1/messages/count_tokens", asking)
      const counting = provider.asked[1] ?? assert.fail("nothing was asked")
      assert.strictEqual(counting.url, `${LOCATION}/publishers/anthropic/models/count-tokens:rawPredict`)
      assert.deepStrictEqual([counting.body.model, counting.body.anthropic_version], [CLAUDE, "vertex-2023-10-16"])
      assert.strictEqual(google.tokens.length, 1)
    }).pipe(Effect.scoped, Effect.provide(Gateway.layer({ clouds: CloudCredentials.ofEnvironment({}) }))))

  it.effect("for Gemini goes to the endpoint with OpenAI's API", () =>
    Effect.gen(function*() {
      const { access, account, google, provider } = yield* started("openai-chat", "/endpoints/openapi", { model: "google/gemini-3.5-pro" })
      provider.answer = ({ headers, response }) => {
        assert.strictEqual(headers.authorization, `Bearer ${google.tokens[0]}`)
        response.writeHead(200, { "content-type": "text/event-stream" })
        // Gemini's reasoning is in the total alone.
        response.end(Provider.sse({ choices: [], usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 32 } }, "[DONE]"))
      }
      assert.strictEqual((yield* Provider.ask(access, "/v1/chat/completions", { stream: true, messages: [] })).status, 200)
      const asked = provider.asked[0] ?? assert.fail("nothing was asked")
      assert.deepStrictEqual([asked.url, asked.body.model], [`${LOCATION}/endpoints/openapi/chat/completions`, "google/gemini-3.5-pro"])
      assert.strictEqual((yield* account).usage.costMicroUsd, 10 * 10 + 22 * 30)
    }).pipe(Effect.scoped, Effect.provide(Gateway.layer({ clouds: CloudCredentials.ofEnvironment({}) }))))

  it.effect("gets errors of Google in the form of its agent", () =>
    Effect.gen(function*() {
      const { access, provider } = yield* started("anthropic-messages", "", { model: CLAUDE })
      provider.answer = ({ response }) =>
        Provider.json(response, 400, [{ error: { code: 400, message: "Prompt is too long", status: "INVALID_ARGUMENT" } }])
      const reply = yield* Provider.ask(access, "/v1/messages", asking)
      assert.deepStrictEqual(JSON.parse(reply.text), {
        type: "error",
        error: { type: "invalid_request_error", message: "Prompt is too long" }
      })
    }).pipe(Effect.scoped, Effect.provide(Gateway.layer({ clouds: CloudCredentials.ofEnvironment({}) }))))
})

describe("Google's credentials", () => {
  it.effect("are those of the machine's metadata where no file is named", () =>
    Effect.gen(function*() {
      const { access, google, provider } = yield* started("anthropic-messages", "", { model: CLAUDE }, ({ metadata }) => ({
        GCE_METADATA_HOST: metadata,
        METADATA_SERVER_DETECTION: "assume-present",
        CLOUDSDK_CONFIG: "/nonexistent"
      }))
      provider.answer = answered(google)
      assert.strictEqual((yield* Provider.ask(access, "/v1/messages", asking)).status, 200)
      assert.strictEqual(google.tokens.length, 1)
    }).pipe(Effect.scoped, Effect.provide(Gateway.layer({ clouds: CloudCredentials.ofEnvironment({}) }))))

  it.effect("are replaced before they expire and after a refusal; a missing credential is explained without Google's words", () =>
    Effect.gen(function*() {
      const { access, account, google, provider } = yield* started("anthropic-messages", "", { model: CLAUDE })
      provider.answer = answered(google)
      const ask = Effect.map(Provider.ask(access, "/v1/messages", asking), ({ status }) => status)
      assert.strictEqual(yield* ask, 200)
      clock.now += 59 * 60_000
      assert.strictEqual(yield* ask, 200)
      assert.strictEqual(google.tokens.length, 2)
      clock.now -= 59 * 60_000

      // The provider knows only a newer token.
      google.tokens.push("ya29.revoked-by-somebody")
      assert.strictEqual(yield* ask, 401)
      assert.include((yield* account).trouble?.message, "the Google credentials of this worker (status 401)")
      assert.strictEqual(yield* ask, 200)

      google.state = "revoked"
      google.tokens.push("ya29.revoked-by-somebody")
      assert.strictEqual(yield* ask, 401)
      const reply = yield* Provider.ask(access, "/v1/messages", asking)
      assert.strictEqual(reply.status, 503)
      const { trouble } = yield* account
      assert.include(trouble?.message, "There are no Google credentials (invalid_grant)")
      assert.notInclude(`${reply.text}${trouble?.message}`, "canary")
    }).pipe(Effect.scoped, Effect.provide(layer)))
})
