/** The pages of MCP servers as HTML: whom they serve, what they show and what not, and what their forms do. */
import { assert, layer } from "@effect/vitest"
import { McpAuthorizationError, McpAuthorizer } from "@slipway/domain/mcp/ports/McpAuthorizer"
import { McpServerStore } from "@slipway/domain/mcp/ports/McpServerStore"
import type { McpTokens } from "@slipway/domain/mcp/schema/McpTokens"
import { Effect, Layer, Redacted } from "effect"
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
const command = {
  repo: "acme/shop",
  name: "wiki",
  command: `node\r\ntools/mcp.js\r\n${HOSTILE}\r\n`,
  variables: `SHOP_KEY=${CANARY}\r\n\r\nEMPTY=\r\n`,
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

const TOKENS: McpTokens = {
  accessToken: "access-7Qm2",
  refreshToken: "refresh-7Qm2",
  expiresAt: null,
  issuer: "https://login.example.com",
  tokenEndpoint: "https://login.example.com/token",
  client: { id: "slipway", secret: null, authentication: "none" },
  resource: server.url
}

/** An authorization server: it asks for agreement at an address with the state, and gives tokens for the code `good`. */
const authorizer = Layer.succeed(McpAuthorizer, {
  begin: ({ redirectUri, url }) =>
    url.includes("broken")
      ? Effect.fail(new McpAuthorizationError({ detail: "It has no metadata.", isFinal: false }))
      : Effect.succeed({
        address: `https://login.example.com/agree?${new URLSearchParams({ state: "state-1", redirect_uri: redirectUri })}`,
        state: Redacted.make("state-1"),
        pending: Redacted.make("pending-7Qm2")
      }),
  finish: (_, answer) =>
    answer.get("code") === "good"
      ? Effect.succeed(TOKENS)
      : Effect.fail(new McpAuthorizationError({ detail: "The person at the authorization server did not agree.", isFinal: true })),
  refresh: () => Effect.die("nothing is renewed here")
})

const CALLBACK = "/mcp-servers/connected"
const oauth = { ...server, header: "", credential: "", authentication: "oauth" }

layer(http().pipe(Layer.provide(authorizer)), { excludeTestServices: true })("the pages of MCP servers", (it) => {
  it.effect("connect a server by OAuth: they lead to the authorization server by a link, and store the tokens that come of it", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      redirected(yield* mine.post("/mcp-servers", oauth), `/mcp-servers/server?${at}&done=set`)
      assert.include(textOf(yield* mine.get(`/mcp-servers/server?${at}`)), "Not connected: agents do not have this server.")
      const begun = yield* mine.post("/mcp-servers/connect", { repo: "acme/shop", name: "wiki" })
      isPage(begun, 200, "Connect wiki")
      const [, address = ""] = /href="(https:\/\/login\.example\.com[^"]+)" rel="noreferrer"/u.exec(begun.text) ?? []
      const { searchParams } = new URL(address.replaceAll("&amp;", "&"))
      assert.isTrue(searchParams.get("redirect_uri")?.endsWith(CALLBACK))
      const back = `${CALLBACK}?state=${searchParams.get("state")}&code=good`
      // Another owner, who was led to the first one's link, connects nothing.
      isPage(yield* (yield* owner).get(back), 400, "The MCP server is not connected")
      redirected(yield* mine.get(back), `/mcp-servers/server?${at}&done=connected`)
      const shown = yield* mine.get(`/mcp-servers/server?${at}&done=connected`)
      isPage(shown, 200, "MCP server wiki")
      assert.match(textOf(shown), /Connected .*The service renews the connection/su)
      const kept = yield* McpServerStore.use((store) => store.connection({ grantId: mine.grantId, repo: "acme/shop", name: "wiki" }))
      assert.deepStrictEqual(JSON.parse(Redacted.value(kept?.tokens ?? Redacted.make("null"))), TOKENS)
      assert.strictEqual((yield* mine.get(back)).status, 400)
    }))

  it.effect("set a command with its variables, show the names alone, and keep the values where none are given", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      redirected(yield* mine.post("/mcp-servers", command), "/mcp-servers?done=set")
      const settings = {
        command: "node",
        arguments: ["tools/mcp.js", HOSTILE],
        variables: ["SHOP_KEY", "EMPTY"],
        onByDefault: true,
        tools: {}
      }
      const stored = { name: "wiki", settings, credential: JSON.stringify({ SHOP_KEY: CANARY, EMPTY: "" }) }
      assert.deepStrictEqual(yield* storedOf(mine), [stored])
      const [listed, page] = [yield* mine.get("/mcp-servers"), yield* mine.get(`/mcp-servers/server?${at}`)]
      isPage(listed, 200, "MCP servers")
      isPage(page, 200, "MCP server wiki")
      for (const { text } of [listed, page]) assert.notInclude(text, "<script>alert")
      assert.match(textOf(page), /Stored:\s+SHOP_KEY\s*,\s+EMPTY/u)
      assert.include(textOf(page), "agents can read them")
      // The form of its kind alone.
      assert.notInclude(page.text, "name=\"url\"")
      yield* mine.post("/mcp-servers/tools", { repo: "acme/shop", name: "wiki", tool: "wipe", permission: "deny" })
      redirected(yield* mine.post("/mcp-servers", { ...command, command: "node\r\nb.js", variables: " \r\n" }), "/mcp-servers?done=set")
      assert.deepStrictEqual(yield* storedOf(mine), [{
        ...stored,
        settings: { ...settings, arguments: ["b.js"], tools: { wipe: "deny" } }
      }])
      redirected(yield* mine.post("/mcp-servers", { ...command, variables: "", clear: "on" }), "/mcp-servers?done=set")
      assert.deepInclude((yield* storedOf(mine))[0], { credential: null })
    }))

  it.effect("refuse a wrong command, say why, and show no value", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      for (
        const [wrong, reason] of [
          [{ command: "-c" }, "The program cannot be used"],
          [{ command: "" }, "The program cannot be used"],
          [{ command: ["node", ..."x".repeat(65)].join("\n") }, "The arguments cannot be used"],
          [{ variables: CANARY }, "Each line of the variables is NAME=VALUE"],
          [{ variables: `A=${CANARY}\nA=${CANARY}` }, "Each line of the variables is NAME=VALUE"],
          [{ variables: `PATH=${CANARY}` }, "The names of the variables cannot be used"]
        ] as const
      ) {
        const refused = yield* mine.post("/mcp-servers", { ...command, ...wrong })
        isPage(refused, 400, "MCP servers")
        assert.include(textOf(refused), reason)
      }
      assert.deepStrictEqual(yield* storedOf(mine), [])
    }))

  it.effect("say why a server is not connected, and that it must be connected again", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const key = { grantId: mine.grantId, repo: "acme/shop", name: "wiki" }
      const connect = mine.post("/mcp-servers/connect", { repo: "acme/shop", name: "wiki" })
      assert.strictEqual((yield* connect).status, 404)
      yield* mine.post("/mcp-servers", server)
      assert.include(textOf(yield* connect), "do not say OAuth")
      yield* mine.post("/mcp-servers", { ...oauth, url: "https://broken.example.com/mcp" })
      const broken = yield* connect
      isPage(broken, 409, "The MCP server is not connected")
      assert.include(textOf(broken), "It has no metadata.")
      yield* mine.post("/mcp-servers", oauth)
      yield* connect
      const denied = yield* mine.get(`${CALLBACK}?state=state-1&error=access_denied`)
      isPage(denied, 400, "The MCP server is not connected")
      assert.include(textOf(denied), "did not agree")
      yield* connect
      yield* mine.get(`${CALLBACK}?state=state-1&code=good`)
      const store = yield* McpServerStore
      yield* store.endRenewal(key, (yield* store.connection(key))?.version ?? 0, { problem: `It was refused. ${HOSTILE}` })
      assert.include(textOf(yield* mine.get("/mcp-servers")), "Connect again")
      const shown = yield* mine.get(`/mcp-servers/server?${at}`)
      isPage(shown, 200, "MCP server wiki")
      assert.include(textOf(shown), "Connect again: It was refused.")
    }))

  it.effect("are an owner's: a member is told so, sees none and changes nothing; who is not signed in signs in first", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      redirected(yield* mine.post("/mcp-servers", server), "/mcp-servers?done=set")
      const member = yield* visitorAs(yield* joined("grace"))
      for (const path of ["/mcp-servers", `/mcp-servers/server?${at}`, `/mcp-servers/remove?${at}`, `${CALLBACK}?code=good&state=x`]) {
        isPage(yield* member.get(path), 403, "MCP servers are for owners")
        redirected(yield* ask(path), `/sign-in?next=${encodeURIComponent(path)}`)
      }
      for (const path of ["/mcp-servers", "/mcp-servers/tools", "/mcp-servers/connect", "/mcp-servers/remove"]) {
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
        [{ authentication: "oauth" }, 400, "With OAuth there is no header with a credential."],
        [{ authentication: "oauth", header: "" }, 400, "The credential needs its client id."],
        [{ authentication: "oauth", header: "", credential: "", scope: "a  b" }, 400, "The scopes cannot be used"],
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
