import { assert } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { MemoryModel } from "@slipway/domain/memory/models/ModelGatewayMemory"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { noTokens } from "@slipway/domain/models/rules/Budget"
import { type Model, ModelCatalogue, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Effect, Fiber, Queue, Redacted } from "effect"
import {
  create,
  eventsOf,
  type FakeAgent,
  find,
  message,
  pass,
  principal,
  running,
  scenario,
  settle,
  startWorker,
  until,
  type World
} from "../Doubles.ts"

const metered: Model = {
  ...offlineDemo,
  id: "acme/one",
  profile: "codex",
  agentRuntime: "codex",
  offline: false,
  upstream: {
    protocol: "openai-responses",
    baseUrl: "https://models.invalid/v1",
    model: "one",
    keyVariable: null,
    prices: { input: 1_000_000, cachedInput: 0, cacheWrite: 0, output: 0 },
    contextTokens: 1000,
    outputTokens: 100
  }
}
const catalogue = { default: metered.id, models: [metered, offlineDemo] }
const start = (world: World, worker = "worker") => startWorker(world, { worker }).pipe(Effect.provideService(ModelCatalogue, catalogue))
const work = (world: World) => running(world, {}, metered)

/** A request of the agent that costs so many micro-USD. */
const think = ({ options: { access } }: FakeAgent, input: number, answered?: Effect.Effect<void>) =>
  access === null ? Effect.die("the agent has no model") : MemoryModel.use((model) => model.ask(access, { ...noTokens, input }, answered))

const usages = (id: Parameters<typeof find>[0]) =>
  Effect.map(eventsOf(id, "usage.updated"), (all) => all.map(({ data: { usage } }) => [usage.llmRequestCount, usage.costMicroUsd]))
const tokens = (id: Parameters<typeof find>[0]) => Effect.map(eventsOf(id, "usage.updated"), (all) => all.map(({ data }) => data.tokens))
const ended = (id: Parameters<typeof find>[0]) => until(id, ({ idleSince }) => idleSince !== null)

scenario(
  "an agent whose model needs an account gets an address and a token of its own; the offline one gets neither",
  (world) =>
    Effect.gen(function*() {
      yield* start(world)
      const { agent } = yield* work(world)
      const { access } = agent.options
      assert.deepStrictEqual([access?.model, access?.contextTokens, access?.outputTokens], ["one", 1000, 100])
      const other = yield* work(world)
      assert.notStrictEqual(
        access && Redacted.value(access.token),
        other.agent.options.access && Redacted.value(other.agent.options.access.token)
      )
      const offline = yield* running(world)
      assert.isNull(offline.agent.options.access)
    })
)

scenario("an agent hears what the operator says of its model and images, and nothing else", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world, {}).pipe(Effect.provideService(ModelCatalogue, {
      default: metered.id,
      models: [metered, { ...metered, id: "acme/blind", images: false }]
    }))
    const heard = Effect.fnUntraced(function*(id: string) {
      const { agent } = yield* running(world, {}, { ...metered, id })
      return agent.options.images
    })
    assert.deepStrictEqual([yield* heard(metered.id), yield* heard("acme/blind")], [undefined, false])
  }))

scenario(
  "reports what the gateway counts, not what the agent says, at most every 5 s and exactly at the turn's end",
  (world) =>
    Effect.gen(function*() {
      yield* start(world)
      const { agent, id } = yield* work(world)
      for (let i = 1; i <= 7; i++) {
        yield* think(agent, 10)
        yield* agent.emit({ _tag: "UsageReported", llmRequestCount: 1000 + i, costMicroUsd: 9999 })
        yield* pass("1 second")
      }
      yield* agent.end({ state: "succeeded" })
      yield* ended(id)
      assert.deepStrictEqual(yield* usages(id), [[5, 50], [7, 70]])
      assert.deepStrictEqual((yield* tokens(id)).map((told) => told?.input), [50, 70])
      yield* message(id, "More")
      yield* Queue.take(agent.prompts)
      yield* think(agent, 5)
      yield* agent.end({ state: "succeeded" })
      yield* ended(id)
      assert.deepStrictEqual((yield* usages(id)).at(-1), [8, 75])
      const { tokens: counted, usage } = yield* find(id)
      assert.deepStrictEqual(usage, { llmRequestCount: 8, costMicroUsd: 75, creditsChargedMicros: 0 })
      assert.deepStrictEqual(counted, { input: 75, cachedInput: 0, output: 0 })
    })
)

scenario("a turn without a request reports no usage", (world) =>
  Effect.gen(function*() {
    yield* start(world)
    const { agent, id } = yield* work(world)
    yield* pass("20 seconds")
    yield* agent.end({ state: "succeeded" })
    yield* ended(id)
    assert.deepStrictEqual(yield* usages(id), [])
  }))

scenario("the next worker knows the cost of a worker's last requests, although it was not reported", (world) =>
  Effect.gen(function*() {
    const first = yield* start(world)
    const { agent, id } = yield* work(world)
    yield* think(agent, 10)
    first.network = "hang"
    yield* think(agent, 20)
    yield* start(world, "worker-2")
    yield* pass("40 seconds")
    const { tokens: counted, usage } = yield* find(id)
    assert.deepStrictEqual(usage, { llmRequestCount: 2, costMicroUsd: 30, creditsChargedMicros: 0 })
    assert.deepStrictEqual(counted, { input: 30, cachedInput: 0, output: 0 })
  }))

scenario(
  "a budget that is used up fails the turn in plain words, and the agent takes the next one when there is money again",
  (world) =>
    Effect.gen(function*() {
      const spending = yield* Spending
      yield* spending.setBudget(principal.grantId, 100)
      yield* start(world)
      const { agent, id } = yield* work(world)
      assert.strictEqual(yield* think(agent, 80), "served")
      assert.strictEqual(yield* think(agent, 80), "over_budget")
      yield* ended(id)
      assert.strictEqual(agent.interrupts, 1)
      assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).map(({ data }) => data), [
        { state: "failed", reason: "budget_exceeded", initiator: "policy" }
      ])
      assert.strictEqual((yield* find(id)).status, "running")
      assert.deepStrictEqual(yield* usages(id), [[1, 80]])

      yield* spending.setBudget(principal.grantId, 1000)
      yield* message(id, "Go on")
      yield* Queue.take(agent.prompts)
      assert.strictEqual(yield* think(agent, 80), "served")
      yield* agent.end({ state: "succeeded" })
      yield* ended(id)
      assert.strictEqual((yield* eventsOf(id, "turn.completed")).at(-1)?.data.state, "succeeded")
    })
)

scenario(
  "a turn fails when the organization runs out of credits, and what it took of them is its usage",
  (world) =>
    Effect.gen(function*() {
      const store = yield* PartnerStore
      const { grantId } = principal
      const claimId = yield* Ids.use((ids) => ids.uuid7)
      yield* store.createClaim({ claimId, grantId, leadId: "lead", variant: "a", creditAmount: 10 })
      yield* store.claim(claimId, { recipientId: principal.userId, organizationId: grantId })
      yield* start(world)
      const { agent, id } = yield* work(world)
      assert.strictEqual(yield* think(agent, 80), "served")
      assert.strictEqual(yield* think(agent, 80), "over_budget")
      yield* ended(id)
      assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).map(({ data }) => data), [
        { state: "failed", reason: "no_credits", initiator: "policy" }
      ])
      assert.deepStrictEqual((yield* find(id)).usage, { llmRequestCount: 1, costMicroUsd: 80, creditsChargedMicros: 8_000_000 })
      assert.strictEqual((yield* store.credits(grantId)).balance, 2)
    }),
  10
)

scenario("a turn that the agent ends first still fails by its budget", (world) =>
  Effect.gen(function*() {
    yield* (yield* Spending).setBudget(principal.grantId, 100)
    yield* start(world)
    const { agent, id } = yield* work(world)
    yield* Effect.all([think(agent, 101), agent.end({ state: "failed", reason: "402" })], { concurrency: 2 })
    yield* ended(id)
    assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).map(({ data }) => data.reason), ["budget_exceeded"])
  }))

scenario("an agent that ignores a used up budget is killed", (world) =>
  Effect.gen(function*() {
    world.hang = true
    yield* (yield* Spending).setBudget(principal.grantId, 100)
    yield* start(world)
    const { agent, id } = yield* work(world)
    yield* think(agent, 101)
    yield* settle
    yield* pass("2 seconds")
    yield* ended(id)
    assert.isTrue(agent.closed)
    assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).map(({ data }) => [data.state, data.reason]), [["failed",
      "budget_exceeded"]])
  }))

scenario("terminating cuts the agent's requests before the agent is gone, and counts them", (world) =>
  Effect.gen(function*() {
    yield* start(world)
    const { agent, id } = yield* work(world)
    world.closing = Effect.sleep("3 seconds")
    const thinking = yield* Effect.forkChild(think(agent, 10, Effect.never))
    yield* settle
    yield* Sandboxes.use((sandboxes) => sandboxes.terminate(principal, id))
    yield* pass("1 second")
    assert.strictEqual(yield* Fiber.join(thinking), "cut")
    assert.strictEqual(yield* think(agent, 10), "unauthorized")
    yield* pass("5 seconds")
    yield* until(id, ({ status }) => status === "terminated")
    assert.strictEqual((yield* find(id)).usage.costMicroUsd, 10)
    assert.strictEqual((yield* (yield* Spending).of(principal.grantId)).reserved, 0)
  }))

scenario("what repositories ask of agents reaches the agent, a heading for each", (world) =>
  Effect.gen(function*() {
    world.files.set("acme/site/AGENTS.md", "Be terse.\n")
    world.files.set("acme/site/CLAUDE.md", "Not read.")
    world.files.set("acme/api/CLAUDE.md", "Run the tests.")
    world.files.set("acme/huge/AGENTS.md", "x".repeat(32 * 1024 + 1))
    yield* start(world)
    yield* create({ repos: ["acme/site", "acme/api", "acme/huge", "acme/none"].map((fullName) => ({ fullName })) })
    const agent = yield* world.nextAgent
    assert.strictEqual(
      agent.options.instructions,
      "# acme/site (in the folder acme-site)\n\nBe terse.\n\n# acme/api (in the folder acme-api)\n\nRun the tests.\n"
    )
    yield* create()
    world.files.clear()
    yield* create()
    yield* world.nextAgent
    assert.isNull((yield* world.nextAgent).options.instructions)
  }))

scenario("an agent without a turn for five minutes is stopped, and resumed with the next message", (world) =>
  Effect.gen(function*() {
    yield* start(world)
    const { agent, id } = yield* work(world)
    yield* pass("10 minutes")
    assert.isFalse(agent.closed, "it is at work")
    yield* agent.end({ state: "succeeded" })
    yield* ended(id)
    yield* pass("299 seconds")
    assert.isFalse(agent.closed)
    agent.sessionId = "native-2"
    yield* pass("2 seconds")
    assert.isTrue(agent.closed)
    assert.strictEqual((yield* find(id)).status, "running")
    assert.strictEqual(yield* think(agent, 1), "unauthorized")
    assert.strictEqual(world.agents.length, 1)

    yield* message(id, "Go on")
    const second = yield* world.nextAgent
    assert.strictEqual(second.options.resume, "native-2")
    assert.strictEqual((yield* Queue.take(second.prompts)).text, "Go on")
    assert.strictEqual(yield* think(second, 1), "served")
    yield* second.end({ state: "succeeded" })
    yield* ended(id)
    assert.deepStrictEqual(yield* eventsOf(id, "sandbox.error"), [])
  }))

scenario(
  "stopping an idle agent again and again counts as no loss, and the unused sandbox still ends",
  (world) =>
    Effect.gen(function*() {
      yield* start(world)
      const { agent, id } = yield* running(world)
      let current = agent
      for (let i = 0; i < 8; i++) {
        yield* current.end({ state: "succeeded" })
        yield* ended(id)
        yield* pass("6 minutes")
        assert.isTrue(current.closed)
        yield* message(id, `Turn ${i}`)
        current = yield* world.nextAgent
        yield* Queue.take(current.prompts)
      }
      yield* current.end({ state: "succeeded" })
      yield* ended(id)
      yield* pass("31 minutes")
      yield* until(id, ({ status }) => status === "succeeded")
      assert.strictEqual(world.boxes.size, 0)
    })
)

scenario(
  "a turn that fails for want of its provider says what to do, in the gateway's words and not the agent's",
  (world) =>
    Effect.gen(function*() {
      yield* start(world)
      const { agent, id } = yield* work(world)
      const { access } = agent.options
      assert(access !== null)
      const trouble = "The provider refuses this service. The operator must set a valid key."
      const reasons = Effect.map(eventsOf(id, "turn.completed"), (all) => all.map(({ data }) => data.reason))
      yield* MemoryModel.use((model) => model.fail(access, trouble))
      yield* agent.end({ state: "failed", reason: "unexpected status 401" })
      yield* ended(id)
      assert.deepStrictEqual(yield* reasons, [trouble])

      // An approval that fails without asking again fails for a reason of its own.
      yield* message(id, "Again")
      yield* Queue.take(agent.prompts)
      yield* agent.end({ state: "failed", reason: "out of ideas" })
      yield* ended(id)
      yield* message(id, "Again")
      yield* Queue.take(agent.prompts)
      yield* MemoryModel.use((model) => model.fail(access, trouble))
      yield* agent.end({ state: "succeeded" })
      yield* ended(id)
      assert.deepStrictEqual(yield* reasons, [trouble, "out of ideas", undefined])
    })
)
