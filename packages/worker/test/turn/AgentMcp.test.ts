/** The MCP servers of an agent: which it gets, what is told of missing ones, and calls that wait for a person. */
import { assert, describe, it } from "@effect/vitest"
import { type McpAsk, McpGateway, type McpTarget } from "@slipway/domain/mcp/ports/McpGateway"
import { McpServerStore } from "@slipway/domain/mcp/ports/McpServerStore"
import type { McpCommandSettings, McpRemoteSettings } from "@slipway/domain/mcp/schema/McpServer"
import { variablesOf } from "@slipway/domain/mcp/usecases/McpServers"
import * as McpServerStoreMemory from "@slipway/domain/memory/mcp/McpServerStoreMemory"
import * as MemoryMachine from "@slipway/domain/memory/MemoryMachine"
import * as RepositorySettingsMemory from "@slipway/domain/memory/source/RepositorySettingsMemory"
import * as Stores from "@slipway/domain/memory/Stores"
import { principalOf } from "@slipway/domain/promise/Caller"
import { type AgentPrompt, AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { SandboxEvent, SandboxEventOf } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import * as Requests from "@slipway/domain/sandbox/usecases/Requests"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SandboxEvents } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import { RepositorySettings } from "@slipway/domain/source/ports/RepositorySettings"
import { NO_SETTINGS } from "@slipway/domain/source/schema/RepoSettings"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import { Context, DateTime, Deferred, Effect, Layer, Option, Redacted, Stream } from "effect"

const README = { "README.md": "# Shop\n" }
const file = (mcpServers: object) => JSON.stringify({ mcpServers })
const REPOSITORIES = {
  "acme/shop": README,
  "acme/tools": {
    ".mcp.json": file({
      tools: { command: "node", args: ["mcp.js"], env: { LOG: "debug" }, alwaysAllow: ["wipe"] },
      shop: { command: "a" },
      remote: { type: "http", url: "https://mcp.example.com/" }
    })
  },
  "acme/not-json": { ".mcp.json": "{" },
  "acme/large": { ".mcp.json": " ".repeat(10 * 1024 * 1024) },
  "acme/many": { ".mcp.json": file(Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`s${i}`, { command: "a" }]))) }
}

const by = principalOf({ grantId: "acme", organizationId: "acme-inc", userId: "ada" })
const CANARY = "Bearer canary-7Qm2-0123456789"

/** A gateway in memory: `problems` has the reasons of servers that do not answer, by name. */
class FakeGateway {
  targets: ReadonlyArray<McpTarget> = []
  attending: ((ask: McpAsk) => Effect.Effect<void>) | null = null
  readonly waiting = new Map<string, Deferred.Deferred<string>>()
  readonly problems: Readonly<Record<string, string>>

  constructor(problems: Readonly<Record<string, string>> = {}) {
    this.problems = problems
  }

  /** Asks as a call does. Returns the decision. */
  ask(id: string, given: string) {
    return Effect.gen({ self: this }, function*() {
      const decided = yield* Deferred.make<string>()
      this.waiting.set(id, decided)
      yield* this.attending?.({ id, server: "wiki", tool: "echo", arguments: given }) ?? Effect.die("no turn attends")
      return yield* Deferred.await(decided)
    })
  }

  look(name: string): Effect.Effect<string | null> {
    return Effect.succeed(this.problems[name] ?? null)
  }

  get layer() {
    return Layer.succeed(McpGateway, {
      open: ({ servers }) =>
        Effect.sync(() => {
          this.targets = servers
          return {
            access: { baseUrl: "http://127.0.0.1:3128/mcp", token: Redacted.make("token-of-the-session") },
            look: (name) => this.look(name),
            attend: (tell) =>
              Effect.acquireUseRelease(
                Effect.sync(() => {
                  this.attending = tell
                }),
                () => Effect.never,
                () =>
                  Effect.sync(() => {
                    this.attending = null
                  })
              ),
            decide: (id, decision, reason) => {
              const decided = this.waiting.get(id)
              return decided === undefined ? Effect.void : Effect.asVoid(Deferred.succeed(decided, [decision, reason].join(" ").trim()))
            }
          }
        })
    })
  }
}

const settings = (more: Partial<McpRemoteSettings> = {}): McpRemoteSettings => ({
  url: "https://wiki.example.com/mcp",
  authentication: { type: "none" },
  onByDefault: true,
  tools: {},
  ...more
})

const set = (name: string, more: Partial<McpRemoteSettings> = {}, credential: string | null = null) =>
  McpServerStore.use((store) =>
    store.set(
      { grantId: "acme", repo: "acme/shop", name },
      settings(more),
      credential === null ? null : Redacted.make(credential),
      DateTime.makeUnsafe("2026-11-30T06:40:00Z")
    )
  )

const create = Effect.fnUntraced(function*(more: object = {}) {
  const request = yield* Requests.creation({ repos: [{ fullName: "acme/shop" }], prompt: "Work.", ...more })
  const { sandbox } = yield* Sandboxes.use((sandboxes) => sandboxes.create(by, request, Option.none()))
  return sandbox.id
})

type Id = Effect.Success<ReturnType<typeof create>>

const entries = (id: Id) =>
  Stream.unwrap(Effect.map(SandboxEvents, (events) => events.entries(by, id, 0))).pipe(Stream.map(({ wire }) => fromWire(wire).event))
const eventsOf = (id: Id): Effect.Effect<ReadonlyArray<SandboxEvent>, unknown, SandboxEvents> =>
  entries(id).pipe(Stream.takeUntil(({ type }) => type === "turn.completed"), Stream.runCollect)
const asked = (id: Id) =>
  entries(id).pipe(
    Stream.filter((event): event is SandboxEventOf<"approval.requested"> => event.type === "approval.requested"),
    Stream.runHead,
    Effect.flatMap(Effect.fromOption)
  )
const bootsIn = (events: ReadonlyArray<SandboxEvent>) =>
  events.flatMap(({ data, type }) => type === "sandbox.boot" && data.stage === "mcp" ? [[data.server, data.error ?? null]] : [])

/** Runs with a service whose agent is `answer`. */
const withService = <A, E>(
  gateway: FakeGateway,
  answer: (prompt: AgentPrompt) => Effect.Effect<string>,
  body: Effect.Effect<A, E, McpServerStore | RepositorySettings | Sandboxes | SandboxEvents>,
  machine = MemoryMachine.layer({ repositories: REPOSITORIES })
) => {
  return Effect.scoped(Effect.gen(function*() {
    // Alone, they take any grant.
    const alone = yield* Layer.build(Layer.merge(McpServerStoreMemory.layer, RepositorySettingsMemory.layer))
    const kept = Context.merge(yield* Layer.build(Stores.layer()), alone)
    const service = Layer.mergeAll(Sandboxes.layer, SandboxEvents.layer, WorkerNode.layerHere({ slots: 4 })).pipe(
      Layer.provide(AgentRuntime.fromPrompt(answer)),
      Layer.provide(gateway.layer),
      Layer.provide(machine),
      Layer.provide(Layer.succeedContext(kept))
    )
    return yield* Effect.provide(body, [
      service,
      Layer.succeed(McpServerStore, Context.get(kept, McpServerStore)),
      Layer.succeed(RepositorySettings, Context.get(kept, RepositorySettings))
    ])
  }))
}

it.live("gives an agent the servers that answer, and names a missing one with its reason to the log and the agent", () => {
  const gateway = new FakeGateway({ docs: "It does not answer in time." })
  const given: Array<AgentPrompt["session"]> = []
  const answer = ({ session }: AgentPrompt) => Effect.sync(() => `${given.push(session)}`)
  return withService(
    gateway,
    answer,
    Effect.gen(function*() {
      yield* set("wiki", { authentication: { type: "header", name: "Authorization" } }, CANARY)
      yield* set("docs")
      yield* set("rarely", { onByDefault: false })
      const events = yield* eventsOf(yield* create())
      const [session] = given
      assert.deepStrictEqual(session?.mcp?.servers, ["wiki"])
      assert.include(session?.instructions, "The MCP server docs is missing: It does not answer in time.")
      assert.deepStrictEqual(bootsIn(events).toSorted(), [["docs", "It does not answer in time."], ["wiki", null]])
      // The gateway has the credential, the agent and the log have not.
      const wiki = gateway.targets.find(({ name }) => name === "wiki")
      const header = wiki !== undefined && "header" in wiki ? wiki.header : null
      assert.strictEqual(Redacted.value(header?.value ?? Redacted.make("")), CANARY)
      assert.notInclude(JSON.stringify([session?.instructions, session?.mcp?.servers, events]), "7Qm2")
    })
  )
})

it.live("gives an agent the servers that its creation chose, and none for an empty choice", () => {
  const given: Array<unknown> = []
  const answer = ({ session }: AgentPrompt) => Effect.sync(() => `${given.push(session.mcp?.servers ?? null)}`)
  return withService(
    new FakeGateway(),
    answer,
    Effect.gen(function*() {
      yield* set("wiki")
      yield* set("rarely", { onByDefault: false })
      for (const mcpServers of [["rarely"], []]) yield* eventsOf(yield* create({ mcpServers }))
      assert.deepStrictEqual(given, [["rarely"], null])
    })
  )
})

it.live("has tools ask where edits ask, unless they have a permission of their own", () => {
  const gateway = new FakeGateway()
  return withService(
    gateway,
    () => Effect.succeed(""),
    Effect.gen(function*() {
      yield* set("wiki", { tools: { read: "allow", publish: "ask", remove: "deny" } })
      const permissions = () => ["read", "publish", "remove", "other"].map((tool) => gateway.targets[0]?.permissionOf(tool))
      yield* eventsOf(yield* create({ toolApprovalMode: "prompt" }))
      assert.deepStrictEqual(permissions(), ["allow", "ask", "deny", "ask"])
      yield* eventsOf(yield* create({ toolApprovalMode: "auto" }))
      assert.deepStrictEqual(permissions(), ["allow", "ask", "deny", "allow"])
    })
  )
})

for (
  const [decision, expected] of [
    [{ decision: "approve" }, "approve"],
    [{ decision: "deny", reason: "Not now." }, "deny Not now."]
  ] as const
) {
  it.live(`waits with a call until a person decides: ${decision.decision}`, () => {
    const gateway = new FakeGateway()
    const answer = () => gateway.ask("mcp:1", "{\n  \"page\": \"Home\"\n}")
    return withService(
      gateway,
      answer,
      Effect.gen(function*() {
        yield* set("wiki")
        // Also with `auto`: the permission of the tool asks.
        const id = yield* create({ toolApprovalMode: "auto" })
        const { data } = yield* asked(id)
        assert.deepInclude(data, { approval_id: "mcp:1", kind: "mcp", tool: "wiki: echo" })
        assert.deepStrictEqual(data.preview, { server: "wiki", tool: "echo", arguments: "{\n  \"page\": \"Home\"\n}" })
        yield* Sandboxes.use((sandboxes) => sandboxes.decideApproval(by, id, "mcp:1", decision))
        const events = yield* eventsOf(id)
        const texts = events.flatMap(({ data, type }) => type === "message.updated" ? [data.text] : [])
        assert.deepStrictEqual(texts, [expected])
      })
    )
  })
}

it.live("denies a call whose arguments cannot be shown whole, and asks no person", () => {
  const gateway = new FakeGateway()
  const answer = () => gateway.ask("mcp:1", "x".repeat(70_000))
  return withService(
    gateway,
    answer,
    Effect.gen(function*() {
      yield* set("wiki")
      const events = yield* eventsOf(yield* create())
      assert.notInclude(events.map(({ type }) => type), "approval.requested")
      const texts = events.flatMap(({ data, type }) => type === "message.updated" ? [data.text] : [])
      assert.deepStrictEqual(texts, ["deny It is larger than 64 KiB, so it cannot be shown whole."])
    })
  )
})

/** A gateway that starts commands as it looks at them. */
class StartingGateway extends FakeGateway {
  override look(name: string) {
    const target = this.targets.find((one) => one.name === name)
    if (target === undefined || !("start" in target)) return super.look(name)
    return Effect.scoped(Effect.match(target.start, { onFailure: ({ detail }) => detail, onSuccess: () => null }))
  }
}

/** The commands that boxes were asked to run, with their variables. */
const recording = () => {
  const commands: Array<{ readonly args: ReadonlyArray<string>; readonly env: object }> = []
  const layer = Layer.effect(
    SandboxHost,
    Effect.gen(function*() {
      const host = yield* SandboxHost
      return SandboxHost.of({
        ...host,
        provision: (options) =>
          Effect.map(host.provision(options), (box): Box => ({
            ...box,
            spawn: (command) => {
              if (command.args[2] === "slipway-mcp") commands.push({ args: command.args.slice(3), env: command.env })
              return box.spawn(command)
            }
          }))
      })
    })
  ).pipe(Layer.provideMerge(MemoryMachine.layer({ repositories: REPOSITORIES })))
  return { commands, layer }
}

const COMMAND: McpCommandSettings = {
  command: "node",
  arguments: ["tools/mcp.js", "$HOME; rm"],
  variables: ["SHOP_KEY"],
  onByDefault: true,
  tools: {}
}
const setCommand = (name: string, values: Readonly<Record<string, string>>, more: Partial<McpCommandSettings> = {}) =>
  McpServerStore.use((store) =>
    store.set(
      { grantId: "acme", repo: "acme/shop", name },
      { ...COMMAND, variables: Object.keys(values), ...more },
      variablesOf(values),
      DateTime.makeUnsafe("2026-11-30T06:40:00Z")
    )
  )

it.live("starts a command in the folder of its repository, with its own variables, and no shell reads its arguments", () => {
  const gateway = new StartingGateway()
  const { commands, layer } = recording()
  const given: Array<AgentPrompt["session"]> = []
  return withService(
    gateway,
    ({ session }) => Effect.sync(() => `${given.push(session)}`),
    Effect.gen(function*() {
      yield* setCommand("tools", { SHOP_KEY: "canary-7Qm2" })
      const events = yield* eventsOf(yield* create())
      assert.deepStrictEqual(given[0]?.mcp?.servers, ["tools"])
      assert.deepStrictEqual(bootsIn(events), [["tools", null]])
      const [started] = commands
      assert.match(started?.args[0] ?? "", /\/shop$/u)
      assert.deepStrictEqual(started?.args.slice(1), ["node", "tools/mcp.js", "$HOME; rm"])
      assert.deepStrictEqual(started?.env, { SHOP_KEY: "canary-7Qm2" })
      assert.notInclude(JSON.stringify([given[0]?.instructions, events]), "7Qm2")
    }),
    layer
  )
})

it.live("goes on without a command that does not answer, and hides the values of its variables in the reason", () => {
  const gateway = new FakeGateway({ tools: "It ended with exit code 1. It said: bad key canary-7Qm2-0123456789" })
  const given: Array<AgentPrompt["session"]> = []
  return withService(
    gateway,
    ({ session }) => Effect.sync(() => `${given.push(session)}`),
    Effect.gen(function*() {
      yield* setCommand("tools", { SHOP_KEY: "canary-7Qm2-0123456789" })
      const events = yield* eventsOf(yield* create())
      assert.include(given[0]?.instructions, "The MCP server tools is missing: It ended with exit code 1. It said: bad key [redacted]")
      assert.deepStrictEqual(bootsIn(events), [["tools", "It ended with exit code 1. It said: bad key [redacted]"]])
    })
  )
})

const withFile = (repo: string) =>
  RepositorySettings.use((settings) =>
    settings.set({ grantId: "acme", repo }, { ...NO_SETTINGS, mcpFile: true }, DateTime.makeUnsafe("2026-11-30T06:40:00Z"))
  )

describe("a repository's .mcp.json", () => {
  it.live("counts only where an owner switched that on", () => {
    const gateway = new StartingGateway()
    const { commands, layer } = recording()
    return withService(
      gateway,
      () => Effect.succeed(""),
      Effect.gen(function*() {
        yield* eventsOf(yield* create({ repos: [{ fullName: "acme/tools" }] }))
        assert.deepStrictEqual(gateway.targets, [])
        yield* withFile("acme/tools")
        const events = yield* eventsOf(yield* create({ repos: [{ fullName: "acme/tools" }], toolApprovalMode: "prompt" }))
        assert.deepStrictEqual(bootsIn(events).toSorted(), [
          ["remote", "Only commands of the file count. An owner can set a server with an address at /mcp-servers."],
          ["shop", null],
          ["tools", null]
        ])
        assert.deepStrictEqual(commands.map(({ args, env }) => [args.slice(1), env]), [[["node", "mcp.js"], { LOG: "debug" }], [["a"], {}]])
        // None of the file's words is a permission.
        assert.strictEqual(gateway.targets[0]?.permissionOf("wipe"), "ask")
        // A creation that chooses its servers has none of a file.
        yield* eventsOf(yield* create({ repos: [{ fullName: "acme/tools" }], mcpServers: [] }))
        assert.lengthOf(commands, 2)
      }),
      layer
    )
  })

  it.live("has no server of a name that an owner set, on by default or not", () => {
    const gateway = new StartingGateway()
    const { commands, layer } = recording()
    return withService(
      gateway,
      () => Effect.succeed(""),
      Effect.gen(function*() {
        yield* withFile("acme/tools")
        yield* setCommand("tools", { SHOP_KEY: "canary-7Qm2" })
        yield* setCommand("shop", {}, { onByDefault: false })
        yield* eventsOf(yield* create({ repos: [{ fullName: "acme/shop" }, { fullName: "acme/tools" }] }))
        assert.deepStrictEqual(commands.map(({ args }) => args.slice(1)), [["node", "tools/mcp.js", "$HOME; rm"]])
      }),
      layer
    )
  })

  it.live.each([
    ["acme/not-json", "It is not a JSON object."],
    ["acme/large", "It has more than 65536 bytes."],
    ["acme/many", "It has more than 20 servers."]
  ])("of %s is named with the reason, and the sandbox goes on", ([repo = "", reason]) => {
    const given: Array<AgentPrompt["session"]> = []
    return withService(
      new FakeGateway(),
      ({ session }) => Effect.sync(() => `${given.push(session)}`),
      Effect.gen(function*() {
        yield* withFile(repo)
        const events = yield* eventsOf(yield* create({ repos: [{ fullName: repo }] }))
        assert.deepStrictEqual(bootsIn(events), [[".mcp.json", `The file cannot be used: ${reason}`]])
        assert.include(given[0]?.instructions, `The MCP server .mcp.json of ${repo} is missing: The file cannot be used: ${reason}`)
      })
    )
  })
})
