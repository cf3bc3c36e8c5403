/** MCP servers that are commands, well-behaved and hostile, as real processes of this machine. */
import { assert, describe, it } from "@effect/vitest"
import { McpNotConnected } from "@slipway/domain/mcp/ports/McpGateway"
import { Deferred, Effect, Exit, Fiber, Scope } from "effect"
import { ask, openCommand, rpc } from "../../testing/McpAgent.ts"
import * as McpCommand from "../../testing/McpCommand.ts"

const isAlive = (pid: unknown): boolean => {
  if (typeof pid !== "number") return false
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const pidOf = ({ got }: McpCommand.TestCommand) => got().find((line) => "started" in line)?.["started"]

const text = ({ messages }: { readonly messages: ReadonlyArray<unknown> }) => JSON.stringify(messages)

describe("a server that is a command", () => {
  it.live("is started once, and answers each client with the ids that it used", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make()
      const agent = yield* openCommand(command.start)
      assert.isNull(yield* agent.session.look("wiki"))
      const begun = yield* ask(agent, rpc("initialize", { protocolVersion: "2025-11-25", capabilities: { sampling: {} } }, "first"))
      assert.deepInclude(begun.messages[0], { id: "first" })
      assert.include(text(begun), "serverInfo")
      assert.isUndefined(begun.headers["mcp-session-id"])
      assert.strictEqual((yield* ask(agent, JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }))).status, 202)
      const both = yield* Effect.forEach(["one", "two"], (message) =>
        ask(agent, rpc("tools/call", { name: "echo", arguments: { message } }, 7)), { concurrency: 2 })
      assert.deepStrictEqual(
        both.map(({ messages }) =>
          messages
        ),
        ["one", "two"].map((message) => [{
          jsonrpc: "2.0",
          id: 7,
          result: { content: [{ type: "text", text: `did echo ${JSON.stringify({ message })}` }] }
        }])
      )
      const methods = command.got().map(({ method, started }) => method ?? (started === undefined ? null : "started"))
      assert.deepStrictEqual(methods, ["started", "initialize", "notifications/initialized", "tools/call", "tools/call"])
      // Requests of servers are refused, so none is invited.
      assert.deepInclude(command.got()[1]?.["params"], { capabilities: {} })
    }))

  it.live("is ended when the agent's session ends", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make()
      const scope = yield* Scope.make()
      const agent = yield* Scope.provide(openCommand(command.start), scope)
      assert.isNull(yield* agent.session.look("wiki"))
      assert.isTrue(isAlive(pidOf(command)))
      yield* Scope.close(scope, Exit.void)
      assert.isFalse(isAlive(pidOf(command)))
    }))

  it.live("has its denied tools neither called nor listed", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make()
      const agent = yield* openCommand(command.start, { permissionOf: (tool) => tool === "delete_page" ? "deny" : "allow" })
      const listed = text(yield* ask(agent, rpc("tools/list")))
      assert.include(listed, "echo")
      assert.notInclude(listed, "delete_page")
      assert.include(text(yield* ask(agent, rpc("tools/call", { name: "delete_page" }))), "an owner denied it")
      assert.notInclude(command.got().map(({ method }) => method), "tools/call")
    }))

  it.live("gets a call only once a person has approved it", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make()
      const agent = yield* openCommand(command.start, { permissionOf: () => "ask" })
      const asked = yield* Deferred.make<string>()
      yield* Effect.forkScoped(agent.session.attend(({ id }) => Deferred.succeed(asked, id)), { startImmediately: true })
      const calling = yield* Effect.forkScoped(ask(agent, rpc("tools/call", { name: "echo", arguments: { a: 1 } })))
      const id = yield* Deferred.await(asked)
      assert.notInclude(command.got().map(({ method }) => method), "tools/call")
      yield* agent.session.decide(id, "approve")
      assert.include(text(yield* Fiber.join(calling)), "did echo")
    }))

  it.live("is told that a request was cancelled, by the id that it knows", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make(`if (message.method === "tools/call") return true`)
      const agent = yield* openCommand(command.start)
      yield* agent.session.look("wiki")
      const calling = yield* Effect.forkScoped(ask(agent, rpc("tools/call", { name: "echo" }, "mine")))
      const cancel = ask(
        agent,
        JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "mine" } })
      )
      yield* Effect.repeat(cancel, { until: () => command.got().some(({ method }) => method === "notifications/cancelled") })
      assert.include(text(yield* Fiber.join(calling)), "The request was cancelled.")
      const call = command.got().find(({ method }) => method === "tools/call")
      const cancelled = command.got().find(({ method }) => method === "notifications/cancelled")
      assert.deepStrictEqual(cancelled?.["params"], { requestId: call?.["id"] })
    }))

  it.live("has no stream of notifications and no session to end", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make()
      const agent = yield* openCommand(command.start)
      for (const method of ["GET", "DELETE"]) assert.strictEqual((yield* ask(agent, null, {}, method)).status, 405)
    }))
})

describe("a command that", () => {
  it.live("cannot be started is missing, with the reason", () =>
    Effect.gen(function*() {
      const agent = yield* openCommand(Effect.fail(new McpNotConnected({ detail: "There is no such program." })))
      assert.strictEqual(yield* agent.session.look("wiki"), "There is no such program.")
      assert.include(text(yield* ask(agent, rpc("tools/list"))), "The MCP server wiki is not available. There is no such program.")
    }))

  it.live("exits at once is missing, with the last lines of its standard error", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make(
        `for (let i = 0; i < 100_000; i++) process.stderr.write("line " + i + "\\n")
         console.error("no license\\u202e"); process.exitCode = 3
         process.stdin.destroy(); return true`
      )
      const agent = yield* openCommand(command.start)
      const reason = yield* agent.session.look("wiki")
      assert.match(reason ?? "", /^It ended with exit code 3\. It said: .*line 99998 \| line 99999 \| no license/u)
      assert.notInclude(reason, "\u202e")
      assert.isBelow(reason?.length ?? 0, 1100)
    }))

  it.live("hangs is missing after its time, and is ended", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make(`console.error("waiting for a license"); return true`)
      const agent = yield* openCommand(command.start, {}, { limits: { startMillis: 2000 } })
      assert.strictEqual(yield* agent.session.look("wiki"), "It does not answer in time. It said: waiting for a license")
      yield* Effect.repeat(Effect.yieldNow, { until: () => !isAlive(pidOf(command)) })
    }))

  it.live("exits in the middle of a call fails this call and all later ones, and is not started again", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make(`if (message.method === "tools/call") process.exit(9)`)
      const agent = yield* openCommand(command.start)
      for (const _ of [1, 2]) {
        assert.include(text(yield* ask(agent, rpc("tools/call", { name: "echo" }))), "It ended with exit code 9.")
      }
      assert.include(text(yield* ask(agent, rpc("initialize", { protocolVersion: "2025-06-18" }))), "It ended with exit code 9.")
      assert.lengthOf(command.got().filter((line) => "started" in line), 1)
    }))

  it.live("sends a line without end is ended, and the memory for it is bounded", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make(
        `if (message.method === "tools/call") {
           const piece = "x".repeat(65_536)
           const more = () => { while (process.stdout.write(piece)); process.stdout.once("drain", more) }
           more()
           return true
         }`
      )
      const agent = yield* openCommand(command.start, {}, { limits: { answerBytes: 1024 * 1024 } })
      assert.include(text(yield* ask(agent, rpc("tools/call", { name: "echo" }))), "It sends a message of more than 1048576 bytes.")
      yield* Effect.repeat(Effect.yieldNow, { until: () => !isAlive(pidOf(command)) })
    }))

  it.live("hangs in a call is told that the call was cancelled, and answers the next one", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make(`if (message.method === "tools/call" && message.params.name === "echo") return true`)
      const agent = yield* openCommand(command.start, {}, { limits: { firstByteMillis: 500 } })
      yield* agent.session.look("wiki")
      assert.include(text(yield* ask(agent, rpc("tools/call", { name: "echo" }))), "It does not answer in time.")
      assert.include(text(yield* ask(agent, rpc("tools/call", { name: "other" }))), "did other")
      assert.include(command.got().map(({ method }) => method), "notifications/cancelled")
    }))

  it.live("asks for sampling, elicitation and roots is refused, and the agent learns of none", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make(
        `if (message.method === "tools/call") {
           const methods = ["sampling/createMessage", "elicitation/create", "roots/list", "ping"]
           for (const method of methods) send({ id: method, method, params: {} })
         }
         if (message.id === "ping") { const id = globalThis.call; send({ id, result: { content: [] } }) }
         if (message.method === "tools/call") { globalThis.call = message.id; return true }`
      )
      const agent = yield* openCommand(command.start)
      const { messages } = yield* ask(agent, rpc("tools/call", { name: "echo" }, 5))
      assert.deepStrictEqual(messages, [{ jsonrpc: "2.0", id: 5, result: { content: [] } }])
      const answers = command.got().filter(({ id, method }) => typeof id === "string" && method === undefined)
      assert.deepStrictEqual(answers.map(({ error, id }) => [id, (error as { code?: number } | undefined)?.code ?? "answered"]), [
        ["sampling/createMessage", -32_601],
        ["elicitation/create", -32_601],
        ["roots/list", -32_601],
        ["ping", "answered"]
      ])
    }))

  it.live("sends requests and reads no answers is ended", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make(
        `if (message.method === "tools/call") {
           process.stdin.pause()
           const id = "x".repeat(10_000)
           for (let i = 0; i < 2000; i++) send({ id: id + i, method: "roots/list" })
           return true
         }`
      )
      const agent = yield* openCommand(command.start)
      const said = text(yield* ask(agent, rpc("tools/call", { name: "echo" })))
      assert.match(said, /It sends too many requests of its own\./u)
    }))

  it.live("changes its tools between the list and a call gets no call of another name", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make(
        `if (message.method === "tools/list") {
           globalThis.lists = (globalThis.lists ?? 0) + 1
           send({ id: message.id, result: globalThis.lists === 1 ? tools("read") : tools("read", "wipe") })
           return true
         }`
      )
      const agent = yield* openCommand(command.start)
      yield* ask(agent, rpc("tools/list"))
      assert.include(text(yield* ask(agent, rpc("tools/call", { name: "wipe" }))), "has no tool wipe")
      assert.notInclude(command.got().map(({ method }) => method), "tools/call")
    }))

  it.live("writes what is no message, answers of unknown requests and answers twice is answered all the same", () =>
    Effect.gen(function*() {
      const command = yield* McpCommand.make(
        `process.stdout.write("Listening!\\n[1,2]\\nnull\\n\\n")
         send({ id: 4096, result: { a: 1 } }); send({ id: null, result: {} }); send({ id: "1", result: {} })
         send({ method: "notifications/progress" })
         if (message.method === "tools/call") { send({ id: message.id }); receive(message); receive(message); return true }`
      )
      const agent = yield* openCommand(command.start)
      for (const id of [1, 2]) {
        const { messages } = yield* ask(agent, rpc("tools/call", { name: "echo" }, id))
        assert.lengthOf(messages, 1)
        assert.deepInclude(messages[0], { id })
        assert.include(JSON.stringify(messages), "did echo")
      }
    }))
})
