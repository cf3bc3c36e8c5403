import { assert } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Deferred, Effect, Option, Queue } from "effect"
import {
  ask,
  eventsOf,
  eventsOfWork,
  type FakeAgent,
  find,
  pass,
  principal,
  running,
  say,
  scenario,
  settle,
  startWorker,
  until,
  type World
} from "../Doubles.ts"

const send = (id: SandboxId, text: string, whenBusy: "queue" | "steer" = "steer") =>
  Effect.map(
    Sandboxes.use((sandboxes) => sandboxes.sendMessage(principal, id, text, Option.none(), whenBusy)),
    ({ turnId }) => turnId
  )
const steered = (messageId: string) => ({ _tag: "MessageSteered" as const, messageId })
const steeredIn = (id: SandboxId) =>
  Effect.map(eventsOf(id, "message.steered"), (all) => all.map(({ data, turn_id }) => [data.message_id, data.text, turn_id]))
const handed = (agent: FakeAgent) => Array.from(agent.steers)
const nextTurn = (id: SandboxId, turnId: string | undefined) => until(id, ({ turn }) => turn?.id !== turnId && turn?.state === "running")

scenario("hands over what steers as it comes, in order, and records it when the agent took it", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    const turnId = (yield* find(id)).turn?.id
    const first = yield* send(id, "To the left")
    const second = yield* send(id, "To the right")
    yield* send(id, "Afterwards", "queue")
    yield* settle
    assert.deepStrictEqual(handed(agent), [[first, "To the left"], [second, "To the right"]])
    assert.deepStrictEqual(yield* steeredIn(id), [])

    yield* agent.emit(say("m1", "I"))
    yield* agent.emit(say("m1", "I go on"), steered(first), say("m2", "Left"))
    yield* settle
    assert.deepStrictEqual((yield* eventsOfWork(id)).slice(-3).map(({ type }) => type), ["message.updated", "message.steered",
      "message.updated"])
    assert.deepStrictEqual(yield* steeredIn(id), [[first, "To the left", turnId]])
    assert.deepStrictEqual((yield* find(id)).waiting.map(({ id }) => id).slice(0, 1), [second])

    yield* agent.emit(steered(second))
    yield* agent.end({ state: "succeeded" })
    const { turn } = yield* nextTurn(id, turnId)
    assert.strictEqual(turn?.prompt, "Afterwards")
    assert.deepStrictEqual((yield* steeredIn(id)).map(([message]) => message), [first, second])
  }))

/** Turns begin when the test says so, from the second one on. */
const holdNextTurn = Effect.fnUntraced(function*(world: World) {
  const begins = (world.beginning = yield* Deferred.make<void>())
  return Effect.andThen(Deferred.succeed(begins, undefined), settle)
})

scenario(
  "hands over what waits as soon as the agent has begun, in order, and nothing that was taken back meanwhile",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world)
      const { agent, id } = yield* running(world)
      const begin = yield* holdNextTurn(world)
      const next = yield* send(id, "Go on")
      const first = yield* send(id, "To the left")
      const unwanted = yield* send(id, "Back")
      const second = yield* send(id, "To the right")
      yield* agent.end({ state: "succeeded" })
      yield* until(id, ({ turn }) => turn?.id === next && turn.state === "running")
      yield* settle
      yield* Sandboxes.use((sandboxes) => sandboxes.cancelMessage(principal, id, unwanted))
      yield* settle
      yield* begin
      assert.deepStrictEqual(handed(agent), [[first, "To the left"], [second, "To the right"]])
    })
)

scenario("interrupts a turn that the agent has not begun as soon as it has", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    const begin = yield* holdNextTurn(world)
    const next = yield* send(id, "Go on")
    yield* agent.end({ state: "succeeded" })
    yield* until(id, ({ turn }) => turn?.id === next && turn.state === "running")
    yield* Sandboxes.use((sandboxes) => sandboxes.interrupt(principal, id))
    yield* settle
    assert.strictEqual((yield* find(id)).turn?.state, "running")
    yield* begin
    yield* pass("15 seconds")
    assert.strictEqual((yield* find(id)).turn?.state, "interrupted")
    // It was not killed.
    assert.isFalse(agent.closed)
  }))

scenario("makes a turn of its own of what the agent did not take before its turn ended", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    const first = yield* send(id, "To the left")
    const second = yield* send(id, "To the right")
    yield* settle
    assert.strictEqual(agent.steers.size, 2)
    yield* agent.end({ state: "succeeded" })
    const turn = yield* Queue.take(agent.prompts)
    assert.deepStrictEqual([turn.turnId, turn.text], [first, "To the left"])
    yield* until(id, (sandbox) => sandbox.turn?.state === "running")
    yield* settle
    // The remaining message steers that turn.
    assert.deepStrictEqual(handed(agent), [[second, "To the right"]])
    yield* agent.emit(steered(second))
    yield* agent.end({ state: "succeeded" })
    yield* until(id, ({ idleSince }) => idleSince !== null)
    assert.deepStrictEqual(yield* steeredIn(id), [[second, "To the right", first]])
  }))

scenario("hands over what comes while an approval waits, which is decided all the same", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.emit(ask("a1"))
    yield* until(id, ({ turn }) => turn?.state === "awaiting_approval")
    const message = yield* send(id, "To the left")
    yield* settle
    assert.deepStrictEqual(handed(agent), [[message, "To the left"]])
    yield* Sandboxes.use((sandboxes) => sandboxes.decideApproval(principal, id, "a1", { decision: "approve" }))
    yield* settle
    assert.deepStrictEqual(agent.decisions, ["a1 approve"])
    yield* agent.emit(steered(message))
    yield* agent.end({ state: "succeeded" })
    yield* until(id, ({ idleSince }) => idleSince !== null)
    assert.strictEqual((yield* steeredIn(id)).length, 1)
  }))

scenario("passes on a decision while the agent takes no message, and interrupts it all the same", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    world.steering = Effect.never
    yield* agent.emit(ask("a1"))
    yield* until(id, ({ turn }) => turn?.state === "awaiting_approval")
    yield* send(id, "To the left")
    yield* settle
    yield* Sandboxes.use((sandboxes) => sandboxes.decideApproval(principal, id, "a1", { decision: "approve" }))
    yield* settle
    assert.deepStrictEqual(agent.decisions, ["a1 approve"])
    yield* Sandboxes.use((sandboxes) => sandboxes.interrupt(principal, id))
    yield* settle
    assert.strictEqual(agent.interrupts, 1)
  }))

scenario("makes the next turn of what the agent did not take before it was interrupted", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    const message = yield* send(id, "To the left")
    yield* Sandboxes.use((sandboxes) => sandboxes.interrupt(principal, id))
    const next = yield* Queue.take(agent.prompts)
    assert.deepStrictEqual([next.turnId, next.text], [message, "To the left"])
    assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).map(({ data }) => data.state), ["interrupted"])
  }))

scenario(
  "loses nothing with its worker: what was taken is not handed over again, what was not becomes the next turn",
  (world) =>
    Effect.gen(function*() {
      const worker = yield* startWorker(world)
      const { agent, id } = yield* running(world)
      const first = yield* send(id, "To the left")
      const second = yield* send(id, "To the right")
      yield* settle
      yield* agent.emit(steered(first))
      yield* settle
      worker.network = "hang"
      yield* startWorker(world, { worker: "worker-2" })
      yield* pass("40 seconds")
      const other = yield* world.nextAgent
      const next = yield* Queue.take(other.prompts)
      assert.deepStrictEqual([next.turnId, next.text], [second, "To the right"])
      yield* other.end({ state: "succeeded" })
      yield* until(id, ({ idleSince }) => idleSince !== null)
      assert.deepStrictEqual((yield* steeredIn(id)).map(([message]) => message), [first])
      assert.deepStrictEqual((yield* find(id)).waiting, [])
    })
)
