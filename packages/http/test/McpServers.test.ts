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
