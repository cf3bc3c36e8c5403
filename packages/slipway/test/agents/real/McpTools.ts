/** The rules for tools of MCP servers with every real agent: the gateway decides, and no credential is in the box. */
import { assert, type Vitest } from "@effect/vitest"
import { calling } from "@slipway/agents/testing/fake-model/Directives"
import { McpGateway, McpNotConnected, type McpTarget } from "@slipway/domain/mcp/ports/McpGateway"
import { type AgentEvent, AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as McpGatewayHttp from "@slipway/gateway/mcp/McpGatewayHttp"
import * as McpServer from "@slipway/gateway/testing/McpServer"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { Context, Effect, Layer, Redacted, type Scope } from "effect"
import { spawn } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { createServer } from "node:net"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { Premises, sandbox } from "./RealAgent.ts"

const CANARY = "canary-7Qm2-of-the-mcp-server"

/** The name of the tool `echo` of the server `wiki`, and its arguments, as each agent calls it. */
const called = (name: string, message: string): string => {
  switch (name) {
    case "claude":
      return calling("mcp__wiki__echo", { message })
    case "codex":
      return calling("echo", { message })
    case "grok":
      return calling("use_tool", { tool_name: "wiki__echo", tool_input: { message } })
    default:
      return calling("wiki_echo", { message })
  }
}

const contentOf = (file: string) => {
  try {
    return readFileSync(file)
  } catch {
    return Buffer.alloc(0)
  }
}

/** Files below `folder` with the credential in them. */
const leaksIn = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name, parentPath }) => path.join(parentPath, name))
    .filter((file) => contentOf(file).includes(CANARY))

interface Given {
  readonly target: McpTarget
  /** `localhost:port` of the server, if it is on this machine. */
  readonly privates: ReadonlyArray<string>
}

type Made = Effect.Success<ReturnType<typeof sandbox>>

/** Opens the agent with one server, and runs one prompt. */
const runWith = Effect.fnUntraced(
  function*(name: string, mode: "auto" | "prompt", decision: "approve" | "deny", made: Made, { privates, target }: Given) {
    const services = yield* Layer.build(
      McpGatewayHttp.layer({ privates: new Set(privates), option: "THE_OPTION" }).pipe(Layer.provide(IdsNode.layer))
    )
    const mcp = yield* Context.get(services, McpGateway).open({ sandboxId: made.box.sandboxId, servers: [target] })
    assert.isNull(yield* mcp.look("wiki"))
    const { origin, pathname } = new URL(mcp.access.baseUrl)
    const there = yield* (yield* Premises).reach(made.box.sandboxId, origin, `${pathname}/`)
    const session = yield* AgentRuntime.use((runtime) =>
      runtime.open({
        box: made.box,
        repositories: made.repositories,
        access: made.access,
        instructions: null,
        toolApprovalMode: mode,
        profile: name,
        model: `test/${name}`,
        reasoningEffort: null,
        resume: null,
        mcp: { access: { ...mcp.access, baseUrl: `${there}${pathname}` }, servers: ["wiki"] }
      })
    )
    const asked: Array<unknown> = []
    yield* Effect.forkChild(
      mcp.attend((ask) => {
        asked.push({ server: ask.server, tool: ask.tool, arguments: JSON.parse(ask.arguments) })
        return mcp.decide(ask.id, decision)
      }),
      { startImmediately: true }
    )
    const events: Array<AgentEvent> = []
    const end = yield* session.prompt({
      turnId: "00000000-0000-5000-8000-000000000001",
      text: `${called(name, "hello")} [[say done]]`,
      onEvent: (event) => Effect.sync(() => void events.push(event))
    })
    assert.deepStrictEqual(end, { state: "succeeded" })
    return { events, asked }
  }
)

/** With the small server of our own. `permission`: of the tool. */
const run = Effect.fnUntraced(
  function*(name: string, mode: "auto" | "prompt", permission: "allow" | "ask" | "deny", decision: "approve" | "deny") {
    const made = yield* sandbox(name)
    const server = yield* McpServer.start()
    const target: McpTarget = {
      name: "wiki",
      url: server.url,
      header: { name: "Authorization", value: Redacted.make(`Bearer ${CANARY}`) },
      permissionOf: () => permission
    }
    return { made, server, ...yield* runWith(name, mode, decision, made, { target, privates: [server.destination] }) }
  }
)

/** The protocol's own test server, from npm. */
const EVERYTHING = fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-everything/dist/index.js"))

/** As a command in the box. */
const overStdio = ({ box }: Made): Effect.Effect<Given> =>
  Effect.succeed({
    privates: [],
    target: {
      name: "wiki",
      permissionOf: () => "ask",
      start: Effect.mapError(
        box.spawn({ command: process.execPath, args: [EVERYTHING, "stdio"], env: {} }),
        ({ detail }) => new McpNotConnected({ detail })
      )
    }
  })

const freePort = Effect.callback<number>((resume) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resume(Effect.succeed(address !== null && typeof address === "object" ? address.port : 0)))
  })
})

/** On this machine, over Streamable HTTP. */
const overHttp = (): Effect.Effect<Given, never, Scope.Scope> =>
  Effect.gen(function*() {
    const port = yield* freePort
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [EVERYTHING, "streamableHttp"], { env: { PORT: String(port) }, stdio: ["ignore", "ignore", "pipe"] })
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    // It says so on standard error when it listens.
    yield* Effect.callback<void>((resume) => {
      child.stderr.on("data", (chunk: Buffer) => chunk.includes("listening") && resume(Effect.void))
      child.once("exit", (code) => resume(Effect.die(`the server ended with ${code}`)))
    })
    return {
      privates: [`localhost:${port}`],
      target: { name: "wiki", url: `http://localhost:${port}/mcp`, header: null, permissionOf: () => "ask" }
    }
  })

/** Registers the rules with the tests of one host. */
export const rules = (it: Vitest.MethodsNonLive<AgentRuntime | SandboxHost | Premises>, name: string) => {
  it.effect("calls a tool of an MCP server, whose credential is nowhere in the box", () =>
    Effect.gen(function*() {
      const { asked, events, made, server } = yield* run(name, "auto", "allow", "deny")
      assert.deepStrictEqual(server.calls, [{ name: "echo", arguments: { message: "hello" } }])
      assert.deepStrictEqual(asked, [])
      assert.isTrue(server.got.every(({ headers }) => headers.authorization === `Bearer ${CANARY}`))
      const tools = events.flatMap((event) => event._tag === "ToolUpdated" ? [event] : [])
      const last = tools.at(-1)
      assert.deepInclude(last, { kind: "mcp", status: "completed", tool: "wiki: echo" })
      assert.deepInclude(last?.detail, { server: "wiki", tool: "echo" })
      assert.deepStrictEqual(JSON.parse(last?.detail?.arguments ?? ""), { message: "hello" })
      assert.deepStrictEqual([...leaksIn(made.folder), ...leaksIn(made.workspace)], [])
      assert.notInclude(JSON.stringify([events, made.model.requests.map(({ body }) => body)]), CANARY)
    }))

  for (const decision of ["approve", "deny"] as const) {
    it.effect(`asks once about a tool of an MCP server, and obeys: ${decision}`, () =>
      Effect.gen(function*() {
        const { asked, events, server } = yield* run(name, "prompt", "ask", decision)
        assert.deepStrictEqual(asked, [{ server: "wiki", tool: "echo", arguments: { message: "hello" } }])
        // The runtime itself asks about none.
        assert.deepStrictEqual(events.filter(({ _tag }) => _tag === "ApprovalRequested"), [])
        assert.lengthOf(server.calls, decision === "approve" ? 1 : 0)
      }))
  }

  it.effect("does not call a denied tool of an MCP server", () =>
    Effect.gen(function*() {
      const { asked, server } = yield* run(name, "auto", "deny", "approve")
      assert.deepStrictEqual([asked, server.calls], [[], []])
    }))

  for (const [transport, give] of [["stdio", overStdio], ["Streamable HTTP", overHttp]] as const) {
    it.effect(`calls a tool of a real MCP server over ${transport}, once a person approved it`, () =>
      Effect.gen(function*() {
        const made = yield* sandbox(name)
        const { asked, events } = yield* runWith(name, "prompt", "approve", made, yield* give(made))
        assert.deepStrictEqual(asked, [{ server: "wiki", tool: "echo", arguments: { message: "hello" } }])
        const last = events.flatMap((event) => event._tag === "ToolUpdated" ? [event] : []).at(-1)
        assert.deepInclude(last, { kind: "mcp", status: "completed", tool: "wiki: echo" })
        // The model got the server's own words.
        assert.include(JSON.stringify(made.model.requests.map(({ body }) => body)), "Echo: hello")
      }))
  }
}
