/** The cost of an unneeded sandbox, and how it goes on. */
import { assert } from "@effect/vitest"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Effect, Queue } from "effect"
import {
  ask,
  create,
  eventsOf,
  find,
  message,
  pass,
  principal,
  publishRequested,
  running,
  scenario,
  settle,
  startWorker,
  until,
  woken
} from "./Doubles.ts"

const held = Effect.flatMap(Maintenance, ({ census }) => Effect.map(census, ({ leased }) => leased))

scenario(
  "an unneeded sandbox costs nothing: no agent, no box, no lease; a message wakes it with its conversation",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world)
      const { agent, id } = yield* running(world)
      yield* agent.end({ state: "succeeded" })
      yield* pass("4 minutes")
      assert.isFalse(agent.closed)
      assert.strictEqual(yield* Effect.orDie(held), 1)
      yield* pass("2 minutes")
      assert.isTrue(agent.closed)
      assert.deepStrictEqual([...world.boxes], [])
      assert.deepStrictEqual([...world.trees], [id])
      assert.strictEqual(yield* Effect.orDie(held), 0)
      assert.deepStrictEqual((yield* eventsOf(id, "sandbox.checkpoint")).map(({ data }) => data.checkpoint), [1])
      yield* pass("10 minutes")
      assert.strictEqual((yield* find(id)).status, "running")

      const second = yield* woken(world, id)
      assert.strictEqual(second.agent.options.resume, "native-1")
      assert.strictEqual(second.text, "Go on")
      assert.deepStrictEqual([...world.boxes], [id])
      assert.deepStrictEqual(yield* eventsOf(id, "sandbox.restored"), [])
    })
)

scenario("twenty creations on eight slots all get their turn, without a wait for idle agents", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world, { slots: 8, agents: 8 })
    const ids = yield* Effect.forEach(Array.from({ length: 20 }), () => create())
    let most = 0
    for (let ended = 0; ended < 20; ended++) {
      yield* pass("1 second")
      most = Math.max(most, world.agents.filter(({ closed }) => !closed).length)
      const agent = yield* world.nextAgent
      yield* Queue.take(agent.prompts)
      yield* agent.end({ state: "succeeded" })
      yield* settle
    }
    for (const id of ids) yield* until(id, ({ turn }) => turn?.state === "succeeded")
    assert.isAtMost(most, 8)
    assert.isAbove(most, 4)
  }))

scenario(
  "a turn that waits for a person holds no slot, and goes on at once when the person has decided",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world, { slots: 1 })
      const { agent, id } = yield* running(world, { toolApprovalMode: "prompt" })
      yield* agent.emit(ask("t1"))
      yield* until(id, ({ turn }) => turn?.state === "awaiting_approval")
      yield* pass("1 second")
      const other = yield* running(world)
      yield* Sandboxes.use((sandboxes) => sandboxes.decideApproval(principal, id, "t1", { decision: "approve" }))
      yield* until(id, ({ turn }) => turn?.state === "running")
      yield* settle
      assert.deepStrictEqual(agent.decisions, ["t1 approve"])
      assert.strictEqual((yield* find(other.id)).turn?.state, "running")
      // Both are at work, so no third one is admitted.
      const third = yield* create()
      yield* pass("2 seconds")
      assert.strictEqual((yield* find(third)).status, "queued")
    })
)

scenario("a publication at rest needs no agent", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.end({ state: "succeeded" })
    yield* pass("6 minutes")
    yield* publishRequested(id)
    yield* until(id, ({ publications }) => publications[0]?.actionState === "idle")
    yield* settle
    assert.strictEqual(world.agents.length, 1)
    assert.strictEqual(yield* Effect.orDie(held), 0)
  }))

scenario("a message that comes as the sandbox goes to rest is answered", (world) =>
  Effect.gen(function*() {
    const worker = yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.end({ state: "succeeded" })
    yield* pass("299 seconds")
    worker.network = "hang"
    yield* pass("2 seconds")
    yield* message(id, "Wait")
    worker.network = "ok"
    const next = yield* world.nextAgent
    assert.strictEqual((yield* Queue.take(next.prompts)).text, "Wait")
  }))
