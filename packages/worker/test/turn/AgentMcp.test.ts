/** The MCP servers of an agent: which it gets, what is told of missing ones, and calls that wait for a person. */
import { assert, it } from "@effect/vitest"
import { type McpAsk, McpGateway, type McpTarget } from "@slipway/domain/mcp/ports/McpGateway"
import { McpServerStore } from "@slipway/domain/mcp/ports/McpServerStore"
import type { McpServerSettings } from "@slipway/domain/mcp/schema/McpServer"
import * as McpServerStoreMemory from "@slipway/domain/memory/mcp/McpServerStoreMemory"
import * as MemoryMachine from "@slipway/domain/memory/MemoryMachine"
import * as Stores from "@slipway/domain/memory/Stores"
import { principalOf } from "@slipway/domain/promise/Caller"
import { type AgentPrompt, AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { SandboxEvent, SandboxEventOf } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import * as Requests from "@slipway/domain/sandbox/usecases/Requests"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SandboxEvents } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import { Context, DateTime, Deferred, Effect, Layer, Option, Redacted, Stream } from "effect"

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

  get layer() {
    return Layer.succeed(McpGateway, {
      open: ({ servers }) =>
        Effect.sync(() => {
          this.targets = servers
          return {
            access: { baseUrl: "http://127.0.0.1:3128/mcp", token: Redacted.make("token-of-the-session") },
            look: (name) => Effect.succeed(this.problems[name] ?? null),
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

const settings = (more: Partial<McpServerSettings> = {}): McpServerSettings => ({
  url: "https://wiki.example.com/mcp",
  authentication: { type: "none" },
  onByDefault: true,
  tools: {},
  ...more
})

const set = (name: string, more: Partial<McpServerSettings> = {}, credential: string | null = null) =>
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
  body: Effect.Effect<A, E, McpServerStore | Sandboxes | SandboxEvents>
) => {
  return Effect.scoped(Effect.gen(function*() {
    // Alone, it takes servers of any grant.
    const servers = yield* Layer.build(McpServerStoreMemory.layer)
    const kept = Context.merge(yield* Layer.build(Stores.layer()), servers)
    const service = Layer.mergeAll(Sandboxes.layer, SandboxEvents.layer, WorkerNode.layerHere({ slots: 4 })).pipe(
      Layer.provide(AgentRuntime.fromPrompt(answer)),
      Layer.provide(gateway.layer),
      Layer.provide(MemoryMachine.layer({ repositories: { "acme/shop": { "README.md": "# Shop\n" } } })),
      Layer.provide(Layer.succeedContext(kept))
    )
    return yield* Effect.provide(body, [service, Layer.succeed(McpServerStore, Context.get(kept, McpServerStore))])
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
