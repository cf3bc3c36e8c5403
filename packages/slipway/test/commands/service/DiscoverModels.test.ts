import { assert, describe, it } from "@effect/vitest"
import { CatalogueFile } from "@slipway/domain/models/schema/ModelCatalogueFile"
import { Effect, Schema } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:http"
import path from "node:path"
import { folder, run } from "../SlipwayProcess.ts"

const LONG = 300_000
const KEY = "sk-canary-0123456789abcdef"

/** A server that needs the key, and lists these models. */
const serving = (data: ReadonlyArray<object>, key: string | null = null) =>
  Effect.acquireRelease(
    Effect.promise(() => {
      const server = createServer((request, response) => {
        const isKnown = key === null || request.headers.authorization === `Bearer ${key}`
        const status = !isKnown ? 401 : request.url === "/v1/models" ? 200 : 404
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ object: "list", data }))
      })
      return new Promise<Server>((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)))
    }),
    (server) => Effect.sync(() => server.close())
  ).pipe(Effect.map((server) => `http://127.0.0.1:${Object(server.address()).port}`))

const decode = Schema.decodeUnknownSync(Schema.fromJsonString(CatalogueFile), { onExcessProperty: "error" })
const idsIn = (file: string) => decode(readFileSync(file, "utf8")).models.map(({ id }) => id)

describe("slipway models discover", () => {
  it.effect("prints the models with the settings to use them", () =>
    Effect.gen(function*() {
      const at = yield* folder
      const url = yield* serving([{ id: "qwen3", max_model_len: 40_960 }, { id: "evil\u001b[2J" }])
      const { code, stdout } = yield* run(at, ["models", "discover", url])
      assert.strictEqual(code, 0)
      assert.include(stdout, `slipway setup --provider compatible --base-url ${url}/v1 --model NAME`)
      assert.include(stdout, "40,960")
      assert.notInclude(stdout, "\u001b")
      const json = yield* run(at, ["models", "discover", url, "--json", "--model", "qwen3"])
      assert.deepStrictEqual(JSON.parse(json.stdout), {
        baseUrl: `${url}/v1`,
        models: [{
          id: "compatible/qwen3",
          agentRuntime: "opencode",
          efforts: [],
          approvals: true,
          offline: false,
          upstream: {
            protocol: "openai-chat",
            baseUrl: `${url}/v1`,
            model: "qwen3",
            keyVariable: null,
            prices: { input: 0, cachedInput: 0, cacheWrite: 0, output: 0 },
            contextTokens: 40_960,
            outputTokens: 8192
          }
        }],
        written: null
      })
    }).pipe(Effect.scoped), LONG)

  it.effect("adds them to a file of models, which the service accepts, and leaves the others as they are", () =>
    Effect.gen(function*() {
      const at = yield* folder
      const file = path.join(at, "models.json")
      const url = yield* serving([{ id: "one" }, { id: "two", max_model_len: 4096 }], KEY)
      const settings = { LLM_KEY: KEY }
      const args = ["models", "discover", `${url}/v1`, "--key-variable", "LLM_KEY", "--write", file]
      const first = yield* run(at, [...args, "--model", "one"], settings)
      assert.strictEqual(first.code, 0, first.stderr)
      assert.include(idsIn(file), "compatible/one")
      const changed = readFileSync(file, "utf8").replace(
        "\"contextTokens\": 128000,\n        \"outputTokens\": 8192",
        "\"contextTokens\": 9000,\n        \"outputTokens\": 8192"
      )
      writeFileSync(file, changed)
      const second = yield* run(at, args, settings)
      assert.include(second.stdout, "has 1 more: compatible/two.")
      const { default: chosen, models } = decode(readFileSync(file, "utf8"))
      assert.strictEqual(chosen, "offline/demo")
      assert.deepStrictEqual(
        models.slice(-2).map(({ id, upstream }) => [id, upstream?.contextTokens, upstream?.outputTokens, upstream?.keyVariable]),
        [
          ["compatible/one", 9000, 8192, "LLM_KEY"],
          ["compatible/two", 4096, 2048, "LLM_KEY"]
        ]
      )
      for (const text of [first.stdout, second.stdout, first.stderr, second.stderr, readFileSync(file, "utf8")]) {
        assert.notInclude(text, KEY)
      }
      const listed = yield* run(at, ["models", "--json"], { ...settings, SLIPWAY_MODELS: file, SLIPWAY_ISOLATION: "none" })
      assert.include(listed.stdout, "compatible/two")
    }).pipe(Effect.scoped), LONG)

  it.effect("says what is wrong, and writes nothing", () =>
    Effect.gen(function*() {
      const at = yield* folder
      const file = path.join(at, "models.json")
      const url = yield* serving([{ id: "one" }], KEY)
      const failing = (args: ReadonlyArray<string>, settings = {}) =>
        Effect.map(run(at, ["models", "discover", ...args, "--write", file], settings), ({ code, stderr }) => {
          assert.strictEqual(code, 1)
          return stderr
        })
      assert.include(yield* failing([url]), "needs a key (status 401)")
      assert.include(yield* failing([url, "--key-variable", "LLM_KEY"]), "LLM_KEY is not set")
      assert.include(yield* failing([url, "--key-variable", "LLM_KEY"], { LLM_KEY: "wrong-key-1" }), "refuses the key")
      assert.include(
        yield* failing([url, "--key-variable", "LLM_KEY", "--model", "three"], { LLM_KEY: KEY }),
        "the server has no model three"
      )
      assert.throws(() => readFileSync(file))
      writeFileSync(file, "{}")
      assert.include(yield* failing([url, "--key-variable", "LLM_KEY"], { LLM_KEY: KEY }), "cannot be used")
      assert.strictEqual(readFileSync(file, "utf8"), "{}")
    }).pipe(Effect.scoped), LONG)
})
