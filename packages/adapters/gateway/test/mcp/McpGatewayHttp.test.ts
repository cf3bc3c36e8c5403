/** The way of an agent to MCP servers: what reaches a server, what comes back, and who decides. Hostile servers are `HostileServers`. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Stream } from "effect"
import { ask, CANARY, open, rpc } from "../../testing/McpAgent.ts"
import * as McpServer from "../../testing/McpServer.ts"

describe("the gateway of MCP servers", () => {
  for (const stream of [false, true]) {
    it.live(`adds the credential to a request and passes its answer on, ${stream ? "as a stream" : "in one piece"}`, () =>
      Effect.gen(function*() {
        const server = yield* McpServer.start({ stream })
        const agent = yield* open(server)
        const begun = yield* ask(agent, rpc("initialize", { protocolVersion: "2025-06-18", capabilities: { sampling: {} } }))
        assert.deepStrictEqual([begun.status, begun.headers["mcp-session-id"]], [200, "session-1"])
        const called = yield* ask(agent, rpc("tools/call", { name: "echo", arguments: { message: "hi" } }), {
          "mcp-session-id": "session-1"
        })
        assert.include(JSON.stringify(called.messages), "did echo")
        assert.deepStrictEqual(server.calls, [{ name: "echo", arguments: { message: "hi" } }])
        assert.deepStrictEqual(server.got.map(({ headers }) => headers.authorization), [`Bearer ${CANARY}`, `Bearer ${CANARY}`])
        assert.deepStrictEqual(server.got.map(({ headers }) => headers["mcp-session-id"]), [undefined, "session-1"])
        // Requests of servers are refused, so none is invited.
        assert.deepStrictEqual(server.got[0]?.message["params"], { protocolVersion: "2025-06-18", capabilities: {} })
      }))
  }

  it.live("passes on no header of the agent but those of the protocol", () =>
    Effect.gen(function*() {
      const server = yield* McpServer.start()
      const agent = yield* open(server)
      yield* ask(agent, rpc("ping"), { cookie: "a=b", "x-forwarded-for": "1.2.3.4", "x-key": "k", "mcp-protocol-version": "2025-06-18" })
      const { headers } = server.got[0] ?? assert.fail("it was not asked")
      assert.hasAllKeys(headers, [
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
        "mcp-protocol-version",
        "user-agent"
      ])
    }))

  it.live("does not let a denied tool be called, and does not list it", () =>
    Effect.gen(function*() {
      const server = yield* McpServer.start()
      const agent = yield* open(server, { permissionOf: (tool) => tool === "delete_page" ? "deny" : "allow" })
      assert.notInclude(JSON.stringify((yield* ask(agent, rpc("tools/list"))).messages), "delete_page")
      const refused = yield* ask(agent, rpc("tools/call", { name: "delete_page", arguments: {} }))
      assert.strictEqual(refused.status, 200)
      assert.include(JSON.stringify(refused.messages), "an owner denied it")
      assert.include(JSON.stringify(refused.messages), "\"isError\":true")
      assert.deepStrictEqual(server.calls, [])
    }))

  for (
    const [how, body] of [
      ["names a method twice", `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{"name":"delete_page"}}`],
      ["spells the method otherwise", `{"jsonrpc":"2.0","id":1,"method":"Tools/Call","params":{"name":"delete_page"}}`],
      ["spells a field otherwise", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","Name":"delete_page"}}`],
      ["spells the field of the method otherwise",
        `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"delete_page"}}`],
      ["sends several messages at once", `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_page"}}]`],
      ["has no id", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"delete_page"}}`]
    ] as const
  ) {
    it.live(`does not let a denied tool be called by a message that ${how}`, () =>
      Effect.gen(function*() {
        const server = yield* McpServer.start()
        const agent = yield* open(server, { permissionOf: (tool) => tool === "delete_page" ? "deny" : "allow" })
        yield* ask(agent, body)
        assert.isFalse(server.got.some(({ message }) =>
          String(message["method"]).toLowerCase() === "tools/call" && JSON.stringify(message).includes("delete_page")
        ))
      }))
  }

  it.live("asks a person with the complete arguments, and calls once it is approved", () =>
    Effect.gen(function*() {
      const server = yield* McpServer.start()
      const agent = yield* open(server, { permissionOf: () => "ask" })
      const asked: Array<unknown> = []
      yield* Effect.forkChild(
        agent.session.attend((call) => {
          asked.push(call)
          assert.deepStrictEqual(server.calls, [])
          return agent.session.decide(call.id, "approve")
        }),
        { startImmediately: true }
      )
      const given = { message: "x".repeat(5000) }
      const called = yield* ask(agent, rpc("tools/call", { name: "echo", arguments: given }))
      assert.include(JSON.stringify(called.messages), "did echo")
      assert.lengthOf(asked, 1)
      assert.deepInclude(asked[0], { server: "wiki", tool: "echo", arguments: JSON.stringify(given, null, 2) })
      assert.deepStrictEqual(server.calls, [{ name: "echo", arguments: given }])
    }))

  it.live("does not call what a person denies, and tells the model why", () =>
    Effect.gen(function*() {
      const server = yield* McpServer.start()
      const agent = yield* open(server, { permissionOf: () => "ask" })
      yield* Effect.forkChild(agent.session.attend((call) => agent.session.decide(call.id, "deny", "Not that page.")), {
        startImmediately: true
      })
      const denied = yield* ask(agent, rpc("tools/call", { name: "echo", arguments: {} }))
      assert.include(JSON.stringify(denied.messages), "A person denied this call. Not that page.")
      assert.deepStrictEqual(server.calls, [])
    }))

  it.live("denies a call that needs a person between turns, and a waiting call when the turn ends", () =>
    Effect.gen(function*() {
      const server = yield* McpServer.start()
      const agent = yield* open(server, { permissionOf: () => "ask" })
      const call = ask(agent, rpc("tools/call", { name: "echo", arguments: {} }))
      assert.include(JSON.stringify((yield* call).messages), "no turn is running")
      const asked = yield* Deferred.make<void>()
      const turn = yield* Effect.forkChild(agent.session.attend(() => Effect.asVoid(Deferred.succeed(asked, undefined))), {
        startImmediately: true
      })
      const waiting = yield* Effect.forkChild(call)
      yield* Deferred.await(asked)
      yield* Fiber.interrupt(turn)
      assert.include(JSON.stringify((yield* Fiber.join(waiting)).messages), "The turn has ended.")
      assert.deepStrictEqual(server.calls, [])
    }))

  it.live("calls no tool that the server does not list", () =>
    Effect.gen(function*() {
      const names = ["echo"]
      const server = yield* McpServer.start({ tools: () => names })
      const agent = yield* open(server)
      yield* ask(agent, rpc("tools/list"))
      names.splice(0, 1, "steal")
      assert.include(JSON.stringify((yield* ask(agent, rpc("tools/call", { name: "steal", arguments: {} }))).messages), "has no tool steal")
      assert.deepStrictEqual(server.calls, [])
      yield* ask(agent, rpc("tools/list"))
      yield* ask(agent, rpc("tools/call", { name: "steal", arguments: {} }))
      assert.lengthOf(server.calls, 1)
    }))

  it.live("knows a token for its session and its servers alone", () =>
    Effect.gen(function*() {
      const server = yield* McpServer.start()
      const agent = yield* open(server)
      const other = yield* Effect.scoped(Effect.map(open(server), ({ token }) => token))
      for (const token of ["", "nothing", other]) assert.strictEqual((yield* ask({ ...agent, token }, rpc("ping"))).status, 403)
      assert.strictEqual((yield* ask({ ...agent, name: "other" }, rpc("ping"))).status, 404)
      assert.strictEqual((yield* ask(agent, "{")).status, 400)
      assert.strictEqual((yield* ask(agent, JSON.stringify({ a: "x".repeat(5 * 1024 * 1024) }))).status, 413)
      assert.deepStrictEqual(server.got, [])
    }))

  it.live("looks at a server before an agent gets it", () =>
    Effect.gen(function*() {
      for (const stream of [false, true]) {
        const server = yield* McpServer.start({ stream })
        const agent = yield* open(server)
        assert.isNull(yield* agent.session.look("wiki"))
        assert.include(server.got.map(({ message }) => message["method"]), "initialize")
      }
      const gone = yield* Effect.scoped(McpServer.start())
      assert.strictEqual(yield* (yield* open(gone)).session.look("wiki"), "It cannot be reached.")
    }))

  it.live("ends what is under way with the session", () =>
    Effect.gen(function*() {
      const server = yield* McpServer.start({ misbehave: () => true })
      const answered = yield* Effect.scoped(Effect.gen(function*() {
        const agent = yield* open(server)
        const call = yield* Effect.forkDetach(Effect.exit(ask(agent, rpc("ping"))))
        yield* Stream.fromEffectRepeat(Effect.sync(() => server.got.length)).pipe(
          Stream.filter((count) => count > 0),
          Stream.take(1),
          Stream.runDrain
        )
        return call
      }))
      assert.strictEqual((yield* Fiber.join(answered))._tag, "Failure")
    }))
})
