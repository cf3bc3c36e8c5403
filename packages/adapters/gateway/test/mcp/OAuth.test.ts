/** Connections to MCP servers by OAuth, with a real authorization server: how they are made, used and renewed. */
import { assert, describe, it } from "@effect/vitest"
import { McpNotConnected } from "@slipway/domain/mcp/ports/McpGateway"
import { McpServerStore } from "@slipway/domain/mcp/ports/McpServerStore"
import { McpConnections } from "@slipway/domain/mcp/usecases/McpConnections"
import * as McpServerStoreMemory from "@slipway/domain/memory/mcp/McpServerStoreMemory"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { Context, DateTime, Effect, Layer, Redacted } from "effect"
import { createServer } from "node:http"
import * as McpAuthorizerHttp from "../../src/mcp/oauth/McpAuthorizerHttp.ts"
import * as AuthorizationServer from "../../testing/AuthorizationServer.ts"
import * as GuardedMcpServer from "../../testing/GuardedMcpServer.ts"
import { ask, open, rpc } from "../../testing/McpAgent.ts"

const KEY = { grantId: "acme", repo: "acme/shop", name: "wiki" }
const REDIRECT = "https://slipway.example.com/mcp-servers/connected"

/** A server of this address, and the use cases of its connection. */
const service = Effect.fnUntraced(
  function*(url: string, destinations: ReadonlyArray<string>, more: Partial<McpAuthorizerHttp.Options> = {}) {
    const authorizer = McpAuthorizerHttp.layer({ privates: new Set(destinations), option: "THE_OPTION", stepMillis: 120_000, ...more })
    const services = yield* Layer.build(
      McpConnections.layer.pipe(Layer.provide(authorizer), Layer.provideMerge(McpServerStoreMemory.layer), Layer.provide(IdsNode.layer))
    )
    const store = Context.get(services, McpServerStore)
    const set = (clientId?: string, secret?: string) =>
      store.set(
        KEY,
        { url, authentication: { type: "oauth", ...(clientId === undefined ? {} : { clientId }) }, onByDefault: true, tools: {} },
        secret === undefined ? null : Redacted.make(secret),
        DateTime.makeUnsafe("2026-11-30T10:00:00Z")
      )
    yield* set()
    const connections = Context.get(services, McpConnections)
    const connect = Effect.gen(function*() {
      const address = yield* connections.begin(KEY, REDIRECT, "ada")
      return yield* connections.finish("acme", yield* AuthorizationServer.visit(address, REDIRECT), "ada")
    })
    const token = (refused: Redacted.Redacted | null = null) => Effect.map(connections.token(KEY, refused), Redacted.value)
    return { connections, connect, store, set, token }
  }
)

const connected = Effect.fnUntraced(function*(behaviour: AuthorizationServer.Behaviour = {}) {
  const issuer = yield* AuthorizationServer.start(behaviour)
  const server = yield* GuardedMcpServer.start(issuer)
  const made = yield* service(server.url, [server.destination, issuer.destination])
  yield* made.connect
  return { issuer, server, ...made }
})

const grantsOf = ({ got }: AuthorizationServer.TestAuthorizationServer) =>
  got.flatMap(({ form, path }) => path === "/token" ? [form["grant_type"]] : [])

describe("a connection by OAuth", () => {
  it.live("is made with a registered client, PKCE, state and resource, and its token opens the server", () =>
    Effect.gen(function*() {
      const { connections, issuer, server } = yield* connected()
      const address = new URL(yield* connections.begin(KEY, REDIRECT, "ada"))
      const { code_challenge_method, redirect_uri, resource, response_type, scope } = Object.fromEntries(address.searchParams)
      assert.deepStrictEqual([code_challenge_method, redirect_uri, resource, response_type], ["S256", REDIRECT, server.url, "code"])
      assert.deepStrictEqual(scope, "tools offline_access")
      const exchange = issuer.got.find(({ path }) => path === "/token")?.form
      assert.deepInclude(exchange, { grant_type: "authorization_code", resource: server.url, redirect_uri: REDIRECT })
      assert.match(exchange?.["code_verifier"] ?? "", /^[\w-]{43,}$/u)
      const agent = yield* open(server, { header: null, token: (refused) => connections.token(KEY, refused) })
      assert.isNull(yield* agent.session.look("wiki"))
      const called = yield* ask(agent, rpc("tools/call", { name: "echo", arguments: { message: "hi" } }))
      assert.include(JSON.stringify(called.messages), "did echo")
    }))

  it.live("is made with the client that an owner registered, and its secret", () =>
    Effect.gen(function*() {
      const client = { id: "mine", secret: "s3cret-s3cret-s3cret-s3cret-s3cret", redirectUri: REDIRECT }
      const issuer = yield* AuthorizationServer.start({ client, registers: false })
      const server = yield* GuardedMcpServer.start(issuer)
      const { connect, set, token } = yield* service(server.url, [server.destination, issuer.destination])
      assert.include((yield* Effect.flip(connect)).message, "registers no clients")
      yield* set(client.id, client.secret)
      assert.isNull((yield* connect).connection?.problem)
      assert.isTrue(yield* Effect.promise(async () => await issuer.isGood(await Effect.runPromise(token()), server.url)))
      assert.isFalse(issuer.got.some(({ path }) => path === "/reg"))
    }))

  it.live("is finished once, by the person who began it, with its own state", () =>
    Effect.gen(function*() {
      const { connections, issuer } = yield* connected()
      const address = yield* connections.begin(KEY, REDIRECT, "ada")
      const answer = yield* AuthorizationServer.visit(address, REDIRECT)
      const exchanges = grantsOf(issuer).length
      const finish = (query: URLSearchParams, by = "ada", grantId = "acme") => Effect.flip(connections.finish(grantId, query, by))
      for (const wrong of [finish(answer, "eve"), finish(answer, "ada", "other"), finish(new URLSearchParams({ code: "x", state: "x" }))]) {
        assert.include((yield* wrong).message, "begun by another person")
      }
      assert.lengthOf(grantsOf(issuer), exchanges)
      yield* connections.finish("acme", answer, "ada")
      assert.include((yield* finish(answer)).message, "begun by another person")
    }))

  it.live("is not made when the answer names another issuer, or the person does not agree", () =>
    Effect.gen(function*() {
      const { connections, issuer } = yield* connected()
      const exchanges = grantsOf(issuer).length
      const forged = yield* AuthorizationServer.visit(yield* connections.begin(KEY, REDIRECT, "ada"), REDIRECT)
      forged.set("iss", "https://evil.example.com")
      assert.include((yield* Effect.flip(connections.finish("acme", forged, "ada"))).message, "could not be understood")
      const state = new URL(yield* connections.begin(KEY, REDIRECT, "ada")).searchParams.get("state") ?? ""
      const denied = new URLSearchParams({ state, error: "access_denied", iss: issuer.issuer })
      assert.include((yield* Effect.flip(connections.finish("acme", denied, "ada"))).message, "did not agree")
      assert.lengthOf(grantsOf(issuer), exchanges)
    }))

  it.live("is renewed once for all that need it at the same time", () =>
    Effect.gen(function*() {
      const { issuer, token } = yield* connected({ tokenSeconds: 20 })
      const before = grantsOf(issuer).length
      // It lives for less than a request may take, so each use begins with a renewal.
      const all = yield* Effect.all(Array.from({ length: 8 }, () => token()), { concurrency: "unbounded" })
      const renewals = grantsOf(issuer).slice(before)
      assert.isTrue(renewals.every((grant) => grant === "refresh_token"))
      assert.isAtLeast(renewals.length, 1)
      const used = issuer.got.flatMap(({ form }) => form["refresh_token"] ?? [])
      assert.strictEqual(new Set(used).size, used.length)
      // A refresh token that is used twice ends the whole connection at this server: it still works.
      assert.isString(yield* token())
      assert.isTrue(all.every((one) => one !== ""))
      assert.isTrue(issuer.got.every(({ form }) => form["grant_type"] !== "refresh_token" || form["resource"] !== undefined))
    }))

  it.live("is renewed when the server refuses the token, and the call is made once", () =>
    Effect.gen(function*() {
      const { connections, issuer, server, token } = yield* connected()
      const first = yield* token()
      yield* Effect.promise(() => issuer.revoke(first))
      const agent = yield* open(server, { header: null, token: (refused) => connections.token(KEY, refused) })
      const called = yield* ask(agent, rpc("tools/call", { name: "echo", arguments: { message: "hi" } }))
      assert.include(JSON.stringify(called.messages), "did echo")
      assert.lengthOf(server.calls, 1)
      assert.notStrictEqual(yield* token(), first)
    }))

  it.live("that cannot be renewed is an error of the call, and asks for a new connection", () =>
    Effect.gen(function*() {
      const { connect, connections, issuer, server, store, token } = yield* connected()
      const first = yield* token()
      issuer.failing = { status: 400, error: "invalid_grant" }
      yield* Effect.promise(() => issuer.revoke(first))
      const agent = yield* open(server, { header: null, token: (refused) => connections.token(KEY, refused) })
      const { messages, status } = yield* ask(agent, rpc("tools/call", { name: "echo", arguments: {} }))
      assert.strictEqual(status, 200)
      const said = JSON.stringify(messages)
      assert.include(said, "The MCP server wiki is not available. Its connection cannot be renewed")
      assert.include(said, "An owner can connect it again at /mcp-servers.")
      assert.lengthOf(server.calls, 0)
      const [record] = yield* store.list("acme", null)
      assert.include(record?.connection?.problem, "invalid_grant")
      // Nothing more is tried until an owner connects it.
      const tried = issuer.got.length
      assert.instanceOf(yield* Effect.flip(token()), McpNotConnected)
      assert.strictEqual(issuer.got.length, tried)
      issuer.failing = null
      assert.isNull((yield* connect).connection?.problem)
      assert.isString(yield* token())
    }))

  it.live("outlives an authorization server that does not answer for a while", () =>
    Effect.gen(function*() {
      const { issuer, store, token } = yield* connected()
      const first = Redacted.make(yield* token())
      issuer.failing = { status: 503, error: "temporarily_unavailable" }
      assert.include((yield* Effect.flip(token(first))).message, "cannot be renewed now")
      assert.isNull((yield* store.list("acme", null))[0]?.connection?.problem)
      issuer.failing = null
      assert.notStrictEqual(yield* token(first), Redacted.value(first))
    }))
})

describe("an authorization server or a resource that", () => {
  /** Connects to an MCP server whose metadata and authorization server answer so. Returns why not. */
  const refusal = Effect.fnUntraced(function*(
    metadata: (own: string) => object,
    server: (own: string) => object | { readonly redirect: string } = () => ({})
  ) {
    const asked: Array<string> = []
    const http = createServer((request, response) => {
      const path = request.url ?? "/"
      asked.push(path)
      const own = `http://localhost:${port}`
      const answer = path.startsWith("/.well-known/oauth-protected-resource")
        ? metadata(own)
        : path.startsWith("/.well-known/")
        ? server(own)
        : null
      if (answer === null) return void response.writeHead(path === "/mcp" ? 401 : 404).end()
      if ("redirect" in answer) return void response.writeHead(302, { location: String(answer.redirect) }).end()
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer))
    })
    const port = yield* AuthorizationServer.listening(http)
    const { connections } = yield* service(`http://localhost:${port}/mcp`, [`localhost:${port}`])
    return { reason: (yield* Effect.flip(connections.begin(KEY, REDIRECT, "ada"))).message, asked }
  })
  const resource = (own: string) => ({ resource: `${own}/mcp`, authorization_servers: [own] })
  const good = (own: string) => ({
    issuer: own,
    authorization_endpoint: `${own}/auth`,
    token_endpoint: `${own}/token`,
    registration_endpoint: `${own}/reg`,
    response_types_supported: ["code"],
    code_challenge_methods_supported: ["S256"]
  })
  const METADATA = "http://169.254.169.254/latest/meta-data"

  for (
    const [how, metadata, server, reason] of [
      ["describes another resource", () => ({ resource: "https://other.example.com/mcp" }), () => ({}), "another resource"],
      ["names a metadata address as authorization server", (own) => ({ ...resource(own), authorization_servers: [METADATA] }), () => ({}),
        "no authorization server that can be used"],
      ["names a private https address as authorization server",
        (own) => ({ ...resource(own), authorization_servers: ["https://169.254.169.254"] }), () => ({}), "no public address"],
      ["redirects to a metadata address", () => ({ redirect: METADATA }), () => ({}), "not followed"],
      ["redirects to a metadata address from its authorization server", resource, () => ({ redirect: METADATA }), "not followed"],
      ["is another issuer than it says", resource, (own) => ({ ...good(own), issuer: "https://other.example.com" }),
        "could not be understood"],
      ["has a token endpoint at a metadata address", resource, (own) => ({ ...good(own), token_endpoint: METADATA }), "cannot be used"],
      ["sends the person to a script", resource, (own) => ({ ...good(own), authorization_endpoint: "javascript:alert(1)" }),
        "cannot be used"],
      ["registers clients at a private address", resource, (own) => ({ ...good(own), registration_endpoint: "https://10.0.0.1/reg" }),
        "no public address"],
      ["knows no PKCE", resource, (own) => ({ ...good(own), code_challenge_methods_supported: ["plain"] }), "does not know PKCE"],
      ["answers more than its bound", resource, (own) => ({ ...good(own), more: "x".repeat(300_000) }), "more than 262144 bytes"],
      ["has no metadata of its authorization server", resource, () => [] as object, "could not be understood"]
    ] as ReadonlyArray<readonly [string, (own: string) => object, (own: string) => object, string]>
  ) {
    it.live(`${how} is refused`, () =>
      Effect.gen(function*() {
        const { asked, reason: found } = yield* refusal(metadata, server)
        assert.include(found, reason)
        assert.notInclude(asked.join(" "), "latest/meta-data")
      }))
  }

  it.live("does not answer is given up", () =>
    Effect.gen(function*() {
      const http = createServer(() => {})
      const port = yield* AuthorizationServer.listening(http)
      const { connections } = yield* service(`http://localhost:${port}/mcp`, [`localhost:${port}`], { stepMillis: 300 })
      assert.include((yield* Effect.flip(connections.begin(KEY, REDIRECT, "ada"))).message, "does not answer in time")
    }))
})
