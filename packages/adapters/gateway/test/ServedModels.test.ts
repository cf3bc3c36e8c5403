import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import * as ServedModels from "../src/discovery/ServedModels.ts"

const KEY = "sk-canary-5f0c1e9b7a3d4286"

/** On a busy machine a server of a test may take long. */
const list = (url: string, key: Redacted.Redacted | null) => ServedModels.list(url, key, 600_000)

type Answer = (request: IncomingMessage, response: ServerResponse) => void

const send = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) =>
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(typeof body === "string" ? body : JSON.stringify(body))

/** A server that answers by path; the requests that came are in `asked`. */
const serving = (answers: Readonly<Record<string, Answer>>) =>
  Effect.gen(function*() {
    const asked: Array<string> = []
    const server = createServer((request, response) => {
      asked.push(`${request.url} ${request.headers.authorization ?? "-"}`)
      const answer = answers[request.url ?? ""]
      if (answer === undefined) send(response, 404, { error: "not found" })
      else answer(request, response)
    })
    yield* Effect.acquireRelease(
      Effect.callback<void>((resume) => {
        server.listen(0, "127.0.0.1", () => resume(Effect.void))
      }),
      () =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
  })

const failing = (url: string, key: Redacted.Redacted | null = null) => Effect.map(Effect.flip(list(url, key)), ({ message }) => message)

const unknown = { contextTokens: null, outputTokens: null, prices: null }

describe("the models of a server with OpenAI's API", () => {
  it.effect("are read from vLLM, Ollama, llama.cpp and OpenRouter with what each says of them", () =>
    Effect.gen(function*() {
      const { url } = yield* serving({
        "/v1/models": (_, response) =>
          send(response, 200, {
            object: "list",
            data: [
              { id: "qwen3:8b", object: "model", created: 1, owned_by: "library" },
              { id: "meta-llama/Llama-4", object: "model", max_model_len: 131_072 },
              { id: "gguf", meta: { n_ctx_train: 4096 } },
              {
                id: "acme/big",
                context_length: 200_000,
                top_provider: { max_completion_tokens: 64_000 },
                pricing: { prompt: "0.000003", completion: "0.000015", input_cache_read: "0.0000003" }
              }
            ]
          })
      })
      assert.deepStrictEqual(yield* list(`${url}/v1`, null), {
        baseUrl: `${url}/v1`,
        models: [
          { name: "qwen3:8b", ...unknown },
          { name: "meta-llama/Llama-4", ...unknown, contextTokens: 131_072 },
          { name: "gguf", ...unknown, contextTokens: 4096 },
          {
            name: "acme/big",
            contextTokens: 200_000,
            outputTokens: 64_000,
            prices: { input: 3_000_000, output: 15_000_000, cachedInput: 300_000, cacheWrite: 3_000_000 }
          }
        ]
      })
    }).pipe(Effect.scoped))

  it.effect("have the prices and limits of LiteLLM's model info", () =>
    Effect.gen(function*() {
      const { asked, url } = yield* serving({
        "/v1/models": (_, response) => send(response, 200, { data: [{ id: "sonnet" }, { id: "free" }] }),
        "/v1/model/info": (_, response) =>
          send(response, 200, {
            data: [{
              model_name: "sonnet",
              litellm_params: { api_key: "not ours" },
              model_info: {
                max_input_tokens: 200_000,
                max_output_tokens: 64_000,
                input_cost_per_token: 3e-6,
                output_cost_per_token: 1.5e-5
              }
            }]
          })
      })
      const { models } = yield* list(`${url}/v1`, Redacted.make(KEY))
      assert.deepStrictEqual(models, [
        {
          name: "sonnet",
          contextTokens: 200_000,
          outputTokens: 64_000,
          prices: { input: 3_000_000, output: 15_000_000, cachedInput: 3_000_000, cacheWrite: 3_000_000 }
        },
        { name: "free", ...unknown }
      ])
      assert.deepStrictEqual(asked, [`/v1/models Bearer ${KEY}`, `/v1/model/info Bearer ${KEY}`])
    }).pipe(Effect.scoped))

  it.effect("are found behind /v1 where the address lacks it", () =>
    Effect.gen(function*() {
      const { url } = yield* serving({ "/v1/models": (_, response) => send(response, 200, { data: [{ id: "m" }] }) })
      assert.deepStrictEqual(yield* list(`${url}/`, null), { baseUrl: `${url}/v1`, models: [{ name: "m", ...unknown }] })
    }).pipe(Effect.scoped))

  it.effect("leave out entries without a usable name, repeated ones and all above a thousand, and take no strange number", () =>
    Effect.gen(function*() {
      const many = Array.from({ length: 1200 }, (_, i) => ({ id: `m${i}` }))
      const { url } = yield* serving({
        "/v1/models": (_, response) =>
          send(response, 200, {
            data: [
              7,
              null,
              { id: "" },
              { id: "x".repeat(181) },
              { id: "nul\u0000" },
              { id: "a", max_model_len: -1, context_length: "8", pricing: { prompt: "-1", completion: "NaN" } },
              { id: "a", max_model_len: 5 },
              ...many
            ]
          })
      })
      const { models } = yield* list(`${url}/v1`, null)
      assert.deepStrictEqual(models.slice(0, 2), [{ name: "a", ...unknown, contextTokens: 5 }, { name: "m0", ...unknown }])
      assert.isAtMost(models.length, 1000)
    }).pipe(Effect.scoped))
})

describe("a server that lists no models", () => {
  it.effect("is explained by what happened, without its own words and without the key", () =>
    Effect.gen(function*() {
      const words = `your key ${KEY} is bad`
      const { url } = yield* serving({
        "/refused/v1/models": (_, response) => send(response, 401, { error: words }),
        "/broken/v1/models": (_, response) => send(response, 500, words),
        "/page/v1/models": (_, response) => send(response, 200, "<html>", { "content-type": "text/html" })
      })
      const key = Redacted.make(KEY)
      assert.include(yield* failing(`${url}/refused/v1`, key), "refuses the key (status 401)")
      assert.include(yield* failing(`${url}/refused/v1`), "needs a key (status 401)")
      assert.include(yield* failing(`${url}/broken/v1`, key), "failed (status 500)")
      assert.include(yield* failing(`${url}/page/v1`, key), "lists no models")
      assert.include(yield* failing(`${url}/nowhere`, key), "lists no models")
      const gone = yield* Effect.scoped(serving({}))
      assert.include(yield* failing(`${gone.url}/v1`, key), "cannot be reached: ECONNREFUSED")
      for (const path of ["refused", "broken"]) assert.notInclude(yield* failing(`${url}/${path}/v1`, key), KEY)
    }).pipe(Effect.scoped))

  it.effect("gets no second request at the address that it redirects to", () =>
    Effect.gen(function*() {
      const other = yield* serving({})
      const { url } = yield* serving({
        "/v1/models": (_, response) => send(response, 307, "", { location: `${other.url}/v1/models` })
      })
      assert.include(yield* failing(`${url}/v1`, Redacted.make(KEY)), "redirects to another address (status 307)")
      assert.deepStrictEqual(other.asked, [])
    }).pipe(Effect.scoped))

  it.effect("is not read beyond 8 MiB", () =>
    Effect.gen(function*() {
      const { url } = yield* serving({
        "/v1/models": (_, response) => send(response, 200, `{"data":[{"id":"m"}]${" ".repeat(8 * 1024 * 1024)}}`)
      })
      assert.include(yield* failing(`${url}/v1`), "lists no models")
    }).pipe(Effect.scoped))
})
