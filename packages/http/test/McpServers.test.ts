/** The MCP servers of repositories, over the internal API. */
import { assert, layer } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { McpServerStore } from "@slipway/domain/mcp/ports/McpServerStore"
import { Effect, Redacted } from "effect"
import { ask, layer as http, mintKey } from "../testing/Harness.ts"

const PATH = "/api/internal/v1/mcp-servers"
const CANARY = "Bearer canary-7Qm2"
const SETTINGS = {
  url: "https://wiki.example.com/mcp",
  authentication: { type: "header", name: "Authorization" },
  onByDefault: true,
  tools: { delete_page: "deny" }
}

const COMMAND = {
  command: "node",
  arguments: ["tools/mcp.js", "--read-only", ""],
  variables: ["SHOP_KEY", "LOG_LEVEL"],
  onByDefault: true,
  tools: { delete_page: "deny" }
}
const VALUES = { SHOP_KEY: "canary-7Qm2", LOG_LEVEL: "a\nb" }

const at = (repo: string, name: string) => `${PATH}?${new URLSearchParams({ repo, name }).toString()}`
const keyOf = Effect.gen(function*() {
  return yield* mintKey({ grant: yield* (yield* Ids).uuid7, scopes: ["secrets"] })
})

layer(http(), { excludeTestServices: true })("MCP servers", (it) => {
  it.effect("are of the key's grant, are replaced and removed, and never show their credential", () =>
    Effect.gen(function*() {
      const [{ key, record: { grantId } }, { key: other }] = [yield* keyOf, yield* keyOf]
      const set = (body: object, name = "wiki") => ask(at("acme/shop", name), { key, method: "PUT", body: JSON.stringify(body) })
      const list = (by: string) => Effect.map(ask(PATH, { key: by }), ({ text }) => JSON.parse(text).data)

      const made = yield* set({ ...SETTINGS, credential: CANARY })
      assert.strictEqual(made.status, 200, made.text)
      assert.deepInclude(JSON.parse(made.text), { repo: "acme/shop", name: "wiki", settings: SETTINGS, hasCredential: true })
      assert.notInclude(made.text + JSON.stringify(yield* list(key)), "7Qm2")
      assert.deepStrictEqual(yield* list(other), [])
      // Without a credential the stored one stays, for this address alone.
      assert.strictEqual((yield* set({ ...SETTINGS, tools: {} })).status, 200)
      const [revealed] = yield* McpServerStore.use((store) => store.reveal(grantId, ["acme/shop"]))
      assert.strictEqual(Redacted.value(revealed?.credential ?? Redacted.make("")), CANARY)
      const moved = yield* set({ ...SETTINGS, url: "https://evil.example.com/mcp" })
      assert.deepStrictEqual([moved.status, JSON.parse(moved.text).error.code], [409, "conflict"])
      // Defaults.
      const least = yield* set({ url: "https://docs.example.com/mcp" }, "docs")
      assert.deepStrictEqual(JSON.parse(least.text).settings, {
        url: "https://docs.example.com/mcp",
        authentication: { type: "none" },
        onByDefault: true,
        tools: {}
      })
      assert.strictEqual((yield* ask(at("acme/shop", "wiki"), { key: other, method: "DELETE" })).status, 404)
      assert.strictEqual((yield* ask(at("acme/shop", "wiki"), { key, method: "DELETE" })).status, 204)
      assert.strictEqual((yield* ask(at("acme/shop", "wiki"), { key, method: "DELETE" })).status, 404)
    }))

  it.effect("may be commands, whose variables have values that are never shown, and stay while the names are the same", () =>
    Effect.gen(function*() {
      const { key, record: { grantId } } = yield* keyOf
      const set = (body: object) => ask(at("acme/shop", "shop"), { key, method: "PUT", body: JSON.stringify(body) })
      const made = yield* set({ ...COMMAND, values: VALUES })
      assert.strictEqual(made.status, 200, made.text)
      assert.deepInclude(JSON.parse(made.text), { name: "shop", settings: COMMAND, hasCredential: true, connection: null })
      assert.notInclude(made.text + (yield* ask(PATH, { key })).text, "7Qm2")
      assert.strictEqual((yield* set({ ...COMMAND, arguments: [] })).status, 200)
      const [revealed] = yield* McpServerStore.use((store) => store.reveal(grantId, ["acme/shop"]))
      assert.deepStrictEqual(JSON.parse(Redacted.value(revealed?.credential ?? Redacted.make("null"))), VALUES)
      assert.strictEqual((yield* set({ ...COMMAND, variables: ["OTHER"] })).status, 409)
      // Defaults.
      const least = yield* set({ command: "./tools/mcp" })
      assert.deepStrictEqual(JSON.parse(least.text).settings, {
        command: "./tools/mcp",
        arguments: [],
        variables: [],
        onByDefault: true,
        tools: {}
      })
    }))

  it.effect("are refused whole where one thing of a command is wrong", () =>
    Effect.gen(function*() {
      const { key } = yield* keyOf
      for (
        const wrong of [
          { ...COMMAND, command: "" },
          { ...COMMAND, command: "-c" },
          { ...COMMAND, command: "a\nb" },
          { ...COMMAND, command: "x".repeat(1025) },
          { ...COMMAND, arguments: ["a\u0000"] },
          { ...COMMAND, arguments: ["a\u2028b"] },
          { ...COMMAND, arguments: Array.from({ length: 65 }, () => "a") },
          { ...COMMAND, arguments: ["x".repeat(8200), "x".repeat(8200)] },
          { ...COMMAND, arguments: "a" },
          { ...COMMAND, values: { SHOP_KEY: "canary-7Qm2" } },
          { ...COMMAND, values: { ...VALUES, MORE: "canary-7Qm2" } },
          { ...COMMAND, values: { ...VALUES, LOG_LEVEL: "a\u0000canary-7Qm2" } },
          { ...COMMAND, values: { ...VALUES, LOG_LEVEL: "x".repeat(8193) } },
          { ...COMMAND, variables: ["SHOP_KEY", "SHOP_KEY"] },
          { ...COMMAND, variables: ["PATH"], values: { PATH: "canary-7Qm2" } },
          { ...COMMAND, variables: ["LD_PRELOAD"], values: { LD_PRELOAD: "canary-7Qm2" } },
          { ...COMMAND, variables: ["NODE_OPTIONS"], values: { NODE_OPTIONS: "canary-7Qm2" } },
          { ...COMMAND, variables: ["a b"], values: { "a b": "canary-7Qm2" } },
          {
            ...COMMAND,
            variables: Array.from({ length: 33 }, (_, i) => `V${i}`),
            values: Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`V${i}`, ""]))
          },
          { ...COMMAND, values: VALUES, url: "https://wiki.example.com/mcp" },
          { ...COMMAND, values: VALUES, credential: CANARY },
          { ...COMMAND, values: VALUES, authentication: { type: "oauth" } },
          { ...SETTINGS, credential: CANARY, values: VALUES },
          { ...COMMAND, values: VALUES, env: {} }
        ]
      ) {
        const { status, text } = yield* ask(at("acme/shop", "shop"), { key, method: "PUT", body: JSON.stringify(wrong) })
        assert.strictEqual(status, 400, JSON.stringify(wrong).slice(0, 200))
        assert.notInclude(text, "7Qm2")
      }
      assert.deepStrictEqual(JSON.parse((yield* ask(PATH, { key })).text).data, [])
    }))

  it.effect("are refused whole where one thing is wrong", () =>
    Effect.gen(function*() {
      const { key } = yield* keyOf
      const put = (body: object, path = at("acme/shop", "wiki")) => ask(path, { key, method: "PUT", body: JSON.stringify(body) })
      for (
        const wrong of [
          {},
          { ...SETTINGS, url: "wiki" },
          { ...SETTINGS, url: "ftp://wiki.example.com/" },
          { ...SETTINGS, url: "http://wiki.example.com/mcp", credential: CANARY },
          { ...SETTINGS, url: "https://a:b@wiki.example.com/mcp" },
          { ...SETTINGS, url: "https://wiki.example.com/mcp#a" },
          { ...SETTINGS, url: `https://wiki.example.com/${"x".repeat(2000)}` },
          { ...SETTINGS, authentication: { type: "header", name: "Host" }, credential: CANARY },
          { ...SETTINGS, authentication: { type: "header", name: "Mcp-Session-Id" }, credential: CANARY },
          { ...SETTINGS, authentication: { type: "header", name: "a b" }, credential: CANARY },
          { ...SETTINGS, authentication: { type: "password" } },
          { ...SETTINGS, credential: "" },
          { ...SETTINGS, credential: "a\nb: c" },
          { ...SETTINGS, credential: "x".repeat(8193) },
          { ...SETTINGS, tools: { read: "maybe" } },
          { ...SETTINGS, tools: { "a b": "deny" } },
          { ...SETTINGS, tools: Object.fromEntries(Array.from({ length: 201 }, (_, i) => [`t${i}`, "deny"])) },
          { ...SETTINGS, more: 1 }
        ]
      ) {
        const { status, text } = yield* put(wrong)
        assert.strictEqual(status, 400, JSON.stringify(wrong).slice(0, 200))
        assert.notInclude(text, "7Qm2")
      }
      for (const name of ["", "Wiki", "a_b", "-a", "a-", "1a", "x".repeat(33)]) {
        assert.strictEqual((yield* put({ ...SETTINGS, credential: CANARY }, at("acme/shop", name))).status, 400, name)
      }
      assert.strictEqual((yield* put(SETTINGS)).status, 409)
      assert.deepStrictEqual(JSON.parse((yield* ask(PATH, { key })).text).data, [])
    }))

  it.effect("are chosen by a creation, which may name only those of its repositories", () =>
    Effect.gen(function*() {
      const grant = yield* (yield* Ids).uuid7
      const { key: secrets } = yield* mintKey({ grant, scopes: ["secrets"] })
      const { key } = yield* mintKey({ grant, scopes: ["sandboxes"] })
      yield* ask(at("acme/shop", "wiki"), { key: secrets, method: "PUT", body: JSON.stringify({ url: "https://wiki.example.com/mcp" }) })
      yield* ask(at("acme/docs", "docs"), { key: secrets, method: "PUT", body: JSON.stringify({ url: "https://docs.example.com/mcp" }) })
      const create = (mcpServers: unknown) =>
        ask("/api/public/v1/sandboxes", {
          key,
          body: JSON.stringify({ repos: [{ fullName: "acme/shop" }], prompt: "Work", mcpServers })
        })
      for (const names of [["wiki"], []]) assert.strictEqual((yield* create(names)).status, 201)
      for (const names of [["docs"], ["nothing"], ["wiki", "wiki"], ["a b"], "wiki", Array.from({ length: 21 }, (_, i) => `s${i}`)]) {
        const { status, text } = yield* create(names)
        assert.deepStrictEqual([status, JSON.parse(text).error.code], [400, "invalid_request"], JSON.stringify(names))
      }
    }))
})
