import { assert } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Timing } from "@slipway/worker/shared/Timing"
import { Deferred, Duration, Effect } from "effect"
import {
  ask,
  create,
  events,
  eventsOf,
  find,
  message,
  pass,
  principal,
  publishRequested,
  running,
  say,
  scenario,
  settle,
  startWorker,
  tool,
  until,
  type World
} from "./Doubles.ts"

const terminate = (id: SandboxId) => Sandboxes.use((sandboxes) => sandboxes.terminate(principal, id))
const terminated = (id: SandboxId) => until(id, ({ status }) => status === "terminated")
const refused = new HostError({ operation: "stop", detail: "a process does not die", retryable: true })

const assertNothingLeft = (world: World) => {
  assert.deepStrictEqual([...world.boxes], [])
  assert.deepStrictEqual([...world.trees], [])
  assert.isTrue(world.agents.every(({ closed }) => closed))
}

scenario("terminates a sandbox that waits for a worker", (world) =>
  Effect.gen(function*() {
    const id = yield* create()
    yield* terminate(id)
    yield* startWorker(world)
    const sandbox = yield* terminated(id)
    assert.strictEqual(sandbox.reason, "terminated")
    assert.strictEqual(sandbox.initiator, "user")
    assert.strictEqual(world.agents.length, 0)
  }))

scenario("terminates a sandbox in the middle of its boot", (world) =>
  Effect.gen(function*() {
    world.opening = yield* Deferred.make<void>()
    yield* startWorker(world)
    const id = yield* create()
    yield* settle
    assert.strictEqual((yield* find(id)).status, "creating")
    assert.deepStrictEqual([...world.boxes], [id])
    yield* terminate(id)
    yield* terminated(id)
    yield* Deferred.succeed(world.opening, undefined)
    yield* settle
    assertNothingLeft(world)
    assert.strictEqual(world.agents.length, 0)
  }))

scenario("terminates a running sandbox: what was said is kept, its turn and its publication are ended", (world) =>
  Effect.gen(function*() {
    world.pushing = Effect.never
    yield* startWorker(world)
    const { agent, id } = yield* running(world, { toolApprovalMode: "prompt" })
    yield* publishRequested(id)
    yield* agent.emit(say("m1", "I"), say("m1", "I am"), tool("t1", "pending"), ask("t1"))
    yield* until(id, ({ approvals }) => approvals.length === 1)
    yield* agent.emit(say("m1", "I am not done"))
    yield* terminate(id)
    const sandbox = yield* terminated(id)
    yield* settle
    assertNothingLeft(world)
    assert.strictEqual(agent.interrupts, 1)
    assert.strictEqual(sandbox.publications[0]?.actionState, "failed")
    assert.deepStrictEqual((yield* eventsOf(id, "message.updated")).at(-1)?.data.text, "I am not done")
    assert.deepStrictEqual((yield* eventsOf(id, "tool.updated")).at(-1)?.data.status, "error")
    assert.deepStrictEqual((yield* eventsOf(id, "approval.resolved")).map(({ data }) => data.by), ["terminate"])
    assert.deepStrictEqual((yield* eventsOf(id, "turn.completed")).map(({ data }) => data), [
      { state: "interrupted", reason: "terminated", initiator: "user" }
    ])
    assert.deepStrictEqual((yield* eventsOf(id, "sandbox.status")).map(({ data }) => data.status), [
      "queued",
      "creating",
      "running",
      "terminating",
      "terminated"
    ])
  }))

scenario("terminates a sandbox whose agent ignores it, after a second", (world) =>
  Effect.gen(function*() {
    world.hang = true
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* terminate(id)
    yield* pass("900 millis")
    assert.strictEqual((yield* find(id)).status, "terminating")
    yield* pass("100 millis")
    yield* terminated(id)
    assert.isTrue(agent.closed)
    assert.strictEqual(world.agents.length, 1)
  }))

scenario("terminates a sandbox that is already over", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.end({ state: "succeeded" })
    yield* pass("31 minutes")
    assert.strictEqual((yield* find(id)).status, "succeeded")
    yield* terminate(id)
    yield* terminated(id)
    yield* settle
    assertNothingLeft(world)
  }))

scenario("keeps asking a host that refuses to let go", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { id } = yield* running(world)
    world.stopFailures.push(refused, refused, refused)
    yield* terminate(id)
    yield* settle
    yield* pass("2 seconds")
    assert.strictEqual((yield* find(id)).status, "terminating")
    yield* pass("2 seconds")
    yield* terminated(id)
    assertNothingLeft(world)
  }))

scenario(
  "a host that refuses for ten minutes fails the release; the reaper goes on until nothing is left",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world)
      const { id } = yield* running(world)
      world.stopFailures.push(...Array.from({ length: 30 }, () => refused))
      yield* terminate(id)
      yield* pass("11 minutes")
      const sandbox = yield* find(id)
      assert.strictEqual(sandbox.status, "failed")
      assert.strictEqual(sandbox.reason, "release_failed")
      yield* pass("10 minutes")
      assertNothingLeft(world)
    })
)

scenario("a sandbox that is unused for half an hour succeeds and is given back", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.end({ state: "succeeded" })
    yield* pass("29 minutes")
    assert.strictEqual((yield* find(id)).status, "running")
    yield* pass("2 minutes")
    const sandbox = yield* find(id)
    assert.strictEqual(sandbox.status, "succeeded")
    assert.strictEqual(sandbox.reason, "idle_timeout")
    assertNothingLeft(world)
    assert.strictEqual((yield* events(id)).at(-1)?.type, "sandbox.status")
  }))

scenario("a sandbox at the end of its lifetime is terminated in the middle of its work", (world) =>
  Effect.gen(function*() {
    const timing = yield* Timing
    yield* startWorker(world).pipe(Effect.provideService(Timing, { ...timing, tick: Duration.minutes(1) }))
    const { agent, id } = yield* running(world)
    for (let hour = 1; hour < 24; hour++) {
      yield* pass("1 hour")
      yield* agent.end({ state: "succeeded" })
      yield* settle
      yield* message(id, "More")
      yield* settle
    }
    assert.strictEqual((yield* find(id)).turn?.state, "running")
    yield* pass("61 minutes")
    const sandbox = yield* find(id)
    assert.strictEqual(sandbox.status, "terminated")
    assert.strictEqual(sandbox.reason, "max_lifetime")
    assert.strictEqual(sandbox.initiator, "policy")
    assertNothingLeft(world)
  }))

scenario("reaps boxes and trees that no sandbox needs, and leaves the others alone", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    const orphan = SandboxId.make("c_aaaaaaaaaaaa")
    const other = SandboxId.make("c_bbbbbbbbbbbb")
    world.boxes.add(orphan)
    world.trees.add(other)
    yield* pass("61 seconds")
    assert.deepStrictEqual([...world.boxes], [id])
    assert.deepStrictEqual([...world.trees], [id])
    assert.isFalse(agent.closed)
  }))

scenario("reaps when it starts, without waiting for its turn", (world) =>
  Effect.gen(function*() {
    world.boxes.add(SandboxId.make("c_aaaaaaaaaaaa"))
    world.trees.add(SandboxId.make("c_bbbbbbbbbbbb"))
    yield* startWorker(world)
    yield* settle
    assertNothingLeft(world)
  }))
