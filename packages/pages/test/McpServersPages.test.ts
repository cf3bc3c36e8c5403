/** The pages of MCP servers as HTML: whom they serve, what they show and what not, and what their forms do. */
import { assert, layer } from "@effect/vitest"
import { McpServerStore } from "@slipway/domain/mcp/ports/McpServerStore"
import { Effect, Redacted } from "effect"
import { owner, redirected, textOf, type Visitor, visitorAs } from "../testing/Browser.ts"
import { ask, joined, layer as http, type Reply } from "../testing/Harness.ts"

const CANARY = "Bearer canary-<'\">&-7Qm2"
const HOSTILE = `"'><script>alert(1)</script>`
const server = {
  repo: "acme/shop",
  name: "wiki",
  url: "https://wiki.example.com/mcp",
  header: "Authorization",
  credential: CANARY,
  on: "on"
}
const at = "repo=acme%2Fshop&name=wiki"

const isPage = (reply: Reply, status: number, title: string) => {
  assert.strictEqual(reply.status, status, reply.text)
  assert.deepStrictEqual([reply.headers["content-type"], reply.headers["cache-control"]], ["text/html; charset=utf-8", "no-store"])
  assert.notMatch(reply.text, /<script(?! type="module" src="\/assets\/)|style="|\son\w+="/u)
  assert.notInclude(reply.text, "7Qm2")
  assert.include(reply.text, `<title>${title} · Slipway</title>`)
}

const storedOf = ({ grantId }: Visitor) =>
  Effect.map(
    McpServerStore.use((store) => store.reveal(grantId, ["acme/shop"])),
    (all) => all.map(({ credential, name, settings }) => ({ name, settings, credential: credential && Redacted.value(credential) }))
  )

layer(http(), { excludeTestServices: true })("the pages of MCP servers", (it) => {
  it.effect("are an owner's: a member is told so, sees none and changes nothing; who is not signed in signs in first", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      redirected(yield* mine.post("/mcp-servers", server), "/mcp-servers?done=set")
      const member = yield* visitorAs(yield* joined("grace"))
      for (const path of ["/mcp-servers", `/mcp-servers/server?${at}`, `/mcp-servers/remove?${at}`]) {
        isPage(yield* member.get(path), 403, "MCP servers are for owners")
        redirected(yield* ask(path), `/sign-in?next=${encodeURIComponent(path)}`)
      }
      for (const path of ["/mcp-servers", "/mcp-servers/tools", "/mcp-servers/remove"]) {
        isPage(yield* member.post(path, server), 403, "MCP servers are for owners")
      }
      assert.deepStrictEqual((yield* storedOf(mine)).map(({ name }) => name), ["wiki"])
      assert.deepStrictEqual(yield* storedOf(member), [])
    }))

  it.effect("set one, whose credential is stored and never shown", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      assert.include(textOf(yield* mine.get("/mcp-servers")), "No MCP servers yet.")
      redirected(yield* mine.post("/mcp-servers", { ...server, repo: " acme/shop " }), "/mcp-servers?done=set")
      const [stored] = yield* storedOf(mine)
      assert.strictEqual(stored?.credential, CANARY)
      assert.deepStrictEqual(stored?.settings, {
        url: server.url,
        authentication: { type: "header", name: "Authorization" },
        onByDefault: true,
        tools: {}
      })
      const shown = yield* mine.get("/mcp-servers?done=set")
      isPage(shown, 200, "MCP servers")
      assert.include(textOf(shown), "Stored")
      // Without a credential the stored one stays.
      redirected(yield* mine.post("/mcp-servers", { ...server, credential: "", on: "" }), "/mcp-servers?done=set")
      const [kept] = yield* storedOf(mine)
      assert.deepStrictEqual([kept?.credential, kept?.settings.onByDefault], [CANARY, false])
    }))

  it.effect("set the permission of a tool, and take it back", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      yield* mine.post("/mcp-servers", server)
      const permit = (tool: string, permission: string) =>
        mine.post("/mcp-servers/tools", { repo: "acme/shop", name: "wiki", tool, permission })
      redirected(yield* permit("delete_page", "deny"), `/mcp-servers/server?${at}&done=permitted`)
      assert.deepStrictEqual((yield* storedOf(mine))[0]?.settings.tools, { delete_page: "deny" })
      const shown = yield* mine.get(`/mcp-servers/server?${at}`)
      isPage(shown, 200, "MCP server wiki")
      assert.include(textOf(shown), "delete_page")
      isPage(yield* permit(HOSTILE, "deny"), 400, "MCP server wiki")
      yield* permit("delete_page", "default")
      const [last] = yield* storedOf(mine)
      assert.deepStrictEqual([last?.settings.tools, last?.credential], [{}, CANARY])
    }))

  it.effect("say what cannot be used, keep what was typed except the credential, and store nothing", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const cases = [
        [{ repo: HOSTILE }, 400, "The repository cannot be used"],
        [{ name: HOSTILE }, 400, "The name cannot be used"],
        [{ url: "http://wiki.example.com/mcp" }, 400, "The address cannot be used: https expected."],
        [{ url: HOSTILE }, 400, "The address cannot be used"],
        [{ header: "Host" }, 400, "The header cannot be used"],
        [{ header: "" }, 400, "The credential needs the name of its header."],
        [{ credential: "" }, 409, "The server needs its credential."]
      ] as const
      for (const [wrong, status, text] of cases) {
        const reply = yield* mine.post("/mcp-servers", { ...server, ...wrong })
        isPage(reply, status, "MCP servers")
        assert.include(textOf(reply), text)
      }
      assert.deepStrictEqual(yield* storedOf(mine), [])
    }))

  it.effect("remove one after a question", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      yield* mine.post("/mcp-servers", server)
      isPage(yield* mine.get(`/mcp-servers/remove?${at}`), 200, "Remove wiki?")
      redirected(yield* mine.post("/mcp-servers/remove", { repo: "acme/shop", name: "wiki" }), "/mcp-servers?done=removed")
      assert.deepStrictEqual(yield* storedOf(mine), [])
      assert.strictEqual((yield* mine.get(`/mcp-servers/remove?${at}`)).status, 404)
    }))
})
