/** The knowledge of a fork's agent about its origin's conversation (docs/decisions/16). */
import { assert } from "@effect/vitest"
import { CannotSave } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type Model, ModelCatalogue, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Effect, Layer, Option, Queue } from "effect"
import {
  eventsOf,
  type FakeAgent,
  find,
  message,
  pass,
  principal,
  REPO,
  running,
  say,
  scenario,
  startWorker,
  until,
  type World
} from "../Doubles.ts"

const other: Model = { ...offlineDemo, id: "other/demo", agentRuntime: "codex" }
const catalogue = { default: offlineDemo.id, models: [offlineDemo, other] }

const start = (world: World) => startWorker(world).pipe(Effect.provideService(ModelCatalogue, catalogue))

/** The agent's answer to the turn that it is at, up to the checkpoint `n` of it. */
const answer = Effect.fnUntraced(function*(id: SandboxId, agent: FakeAgent, n: number, text: string) {
  yield* agent.emit(say(`m${n}`, text))
  yield* agent.end({ state: "succeeded" })
  yield* until(id, ({ checkpoint }) => checkpoint === n)
})

const talk = Effect.fnUntraced(function*(id: SandboxId, agent: FakeAgent, n: number, prompt: string, text: string) {
  yield* message(id, prompt)
  yield* Queue.take(agent.prompts)
  yield* answer(id, agent, n, text)
})

/** The fork's agent, once it has the prompt, and that. */
const fork = Effect.fnUntraced(function*(world: World, of: SandboxId, checkpoint: number, model: string) {
  const asked = { prompt: "Try it in blue", checkpoint, model, metadata: {} }
  const { sandbox } = yield* Sandboxes.use((sandboxes) => sandboxes.fork(principal, of, asked, Option.none())).pipe(
    Effect.provide(Layer.fresh(Sandboxes.layer).pipe(Layer.provide(Layer.succeed(ModelCatalogue, catalogue))))
  )
  const agent = yield* world.nextAgent
  return { id: sandbox.id, agent, text: (yield* Queue.take(agent.prompts)).text }
})

scenario(
  "the agent of another runtime is told what was said up to the checkpoint; the fork's log has nothing of it",
  (world) =>
    Effect.gen(function*() {
      yield* start(world)
      const { agent, id } = yield* running(world)
      yield* answer(id, agent, 1, "It is fixed.")
      yield* talk(id, agent, 2, "Now the footer", "That too.")
      const first = yield* fork(world, id, 1, other.id)
      assert.strictEqual(first.text, "Try it in blue")
      assert.isNull(first.agent.options.resume)
      assert.strictEqual(
        first.agent.options.instructions,
        "# What was said before\n\nThe files are as this conversation left them. Go on from it; do not answer it again.\n\n" +
          "## The person\n\nFix the header\n\n## You\n\nIt is fixed."
      )
      assert.deepStrictEqual((yield* eventsOf(first.id, "turn.started")).map(({ data }) => data.text), ["Try it in blue"])
      assert.deepStrictEqual(yield* eventsOf(first.id, "message.updated"), [])
      const second = yield* fork(world, id, 2, other.id)
      assert.include(second.agent.options.instructions ?? "", "## The person\n\nNow the footer\n\n## You\n\nThat too.")
    })
)

scenario("the agent of the same runtime goes on with the conversation itself", (world) =>
  Effect.gen(function*() {
    yield* start(world)
    const { agent, id } = yield* running(world)
    yield* answer(id, agent, 1, "It is fixed.")
    const { agent: forked } = yield* fork(world, id, 1, offlineDemo.id)
    assert.deepStrictEqual([forked.options.resume, forked.options.instructions], ["native-1", null])
  }))

scenario(
  "the agent of a fork's fork is told what was said in all that it comes from, each up to its checkpoint",
  (world) =>
    Effect.gen(function*() {
      yield* start(world)
      const { agent, id } = yield* running(world)
      yield* answer(id, agent, 1, "It is fixed.")
      yield* talk(id, agent, 2, "Now the footer", "That too.")
      const second = yield* fork(world, id, 1, offlineDemo.id)
      yield* answer(second.id, second.agent, 2, "It is blue.")
      const third = yield* fork(world, second.id, 2, offlineDemo.id)
      yield* answer(third.id, third.agent, 2, "Bluer.")
      const told = (yield* fork(world, third.id, 2, other.id)).agent.options.instructions ?? ""
      const texts = told.split(/\n\n## (?:The person|You)\n\n/u).slice(1)
      assert.deepStrictEqual(texts, ["Fix the header", "It is fixed.", "Try it in blue", "It is blue.", "Try it in blue", "Bluer."])
      // The first checkpoint of a fork is from before its first turn.
      const early = (yield* fork(world, third.id, 1, other.id)).agent.options.instructions ?? ""
      assert.include(early, "It is blue.")
      assert.notInclude(early, "Bluer.")
    })
)

scenario(
  "a fork boots with the files and the conversation of its checkpoint; its origin stays as it is",
  (world) =>
    Effect.gen(function*() {
      yield* start(world)
      const { agent, id } = yield* running(world)
      const { homes, work } = world.machine("machine")
      work.set(id, "one")
      homes.set(id, "said one")
      yield* answer(id, agent, 1, "It is fixed.")
      yield* message(id, "Now the footer")
      yield* Queue.take(agent.prompts)
      work.set(id, "two")
      yield* answer(id, agent, 2, "That too.")
      const before = yield* find(id)
      const forked = yield* fork(world, id, 1, offlineDemo.id)
      assert.deepStrictEqual([work.get(forked.id), homes.get(forked.id)], ["one", "said one"])
      assert.deepStrictEqual((yield* eventsOf(forked.id, "sandbox.restored")).map(({ data }) => data), [{ checkpoint: 1, cause: "fork" }])
      assert.deepStrictEqual((yield* eventsOf(forked.id, "sandbox.checkpoint")).map(({ data }) => data.checkpoint), [1])
      assert.deepStrictEqual([work.get(id), yield* find(id)], ["two", before])
    })
)

scenario("what its origin went back behind is not told to a fork", (world) =>
  Effect.gen(function*() {
    yield* start(world)
    const { agent, id } = yield* running(world)
    yield* answer(id, agent, 1, "It is fixed.")
    yield* talk(id, agent, 2, "Now the footer", "That too.")
    yield* Sandboxes.use((sandboxes) => sandboxes.restore(principal, id, 1))
    yield* until(id, ({ checkpoint, restoring }) => restoring === null && checkpoint === 3)
    const third = (yield* fork(world, id, 3, other.id)).agent.options.instructions ?? ""
    assert.notInclude(third, "Now the footer")
    const second = (yield* fork(world, id, 2, other.id)).agent.options.instructions ?? ""
    for (const told of [second, third]) assert.include(told, "It is fixed.")
    assert.include(second, "That too.")
  }))

scenario("a fork whose machine is gone before it had a checkpoint knows of its origin alone", (world) =>
  Effect.gen(function*() {
    const first = yield* start(world)
    const { agent, id } = yield* running(world)
    yield* answer(id, agent, 1, "It is fixed.")
    world.saving = Effect.fail(new CannotSave({ repo: REPO, detail: "it is too large", retryable: false }))
    const { agent: forked, id: of } = yield* fork(world, id, 1, other.id)
    yield* forked.emit(say("m2", "It is blue."))
    yield* forked.end({ state: "succeeded" })
    yield* until(of, ({ owesCheckpoint, turn }) => turn?.state === "succeeded" && !owesCheckpoint)
    first.network = "hang"
    world.bears = { workspace: true, home: false }
    yield* startWorker(world, { worker: "worker-2", machine: "machine-2" }).pipe(Effect.provideService(ModelCatalogue, catalogue))
    yield* message(of, "And now?")
    yield* pass("11 minutes")
    assert.deepStrictEqual((yield* eventsOf(of, "sandbox.restored")).map(({ data }) => data.cause), ["fork", "fork"])
    const told = world.agents.at(-1)?.options.instructions ?? ""
    assert.deepStrictEqual(told.split(/\n\n## (?:The person|You)\n\n/u).slice(1), ["Fix the header", "It is fixed."])
  }))

scenario("of a long conversation the newest messages are told, 64 KiB of them", (world) =>
  Effect.gen(function*() {
    yield* start(world)
    const { agent, id } = yield* running(world)
    yield* answer(id, agent, 1, "It is fixed.")
    for (const n of [2, 3, 4]) yield* talk(id, agent, n, String(n).repeat(20_000), `Done: ${n}.`)
    const told = (yield* fork(world, id, 4, other.id)).agent.options.instructions ?? ""
    assert.include(told, "Fix the header")
    for (const n of [2, 3, 4]) assert.include(told, String(n).repeat(20_000))
    yield* talk(id, agent, 5, "5".repeat(20_000), "Done: 5.")
    const later = (yield* fork(world, id, 5, other.id)).agent.options.instructions ?? ""
    for (const gone of ["Fix the header", "222"]) assert.notInclude(later, gone)
    assert.include(later, "Done: 5.")
    assert.isBelow(later.length, 66_000)
  }))
