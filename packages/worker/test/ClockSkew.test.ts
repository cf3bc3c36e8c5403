import { assert } from "@effect/vitest"
import { ClockSkew } from "@slipway/domain/sandbox/usecases/StoreClock"
import { Duration, Effect } from "effect"
import { find, pass, running, scenario, settle, startWorker, until } from "./Doubles.ts"

const HOUR = Duration.toMillis("1 hour")

scenario("a worker whose clock is set back gives up its agent before the lease ends all the same", (world) =>
  Effect.gen(function*() {
    const process = yield* startWorker(world)
    const { agent } = yield* running(world)
    process.skewMillis = -HOUR
    process.network = "hang"
    yield* pass("30 seconds")
    assert.isTrue(agent.closed)
  }))

scenario("a worker whose clock is set ahead keeps the agent whose lease it has", (world) =>
  Effect.gen(function*() {
    const process = yield* startWorker(world)
    const { agent } = yield* running(world)
    process.skewMillis = 25 * HOUR
    yield* pass("25 seconds")
    assert.isFalse(agent.closed)
  }))

scenario("a worker whose clock is wrong ends nothing; another one applies the limit", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world).pipe(Effect.provideService(ClockSkew, Effect.succeed(25 * HOUR)))
    const { agent, id } = yield* running(world)
    yield* agent.end({ state: "succeeded" })
    yield* settle
    yield* pass("31 minutes")
    assert.strictEqual((yield* find(id)).status, "running")
    yield* startWorker(world, { worker: "worker-2" })
    yield* pass("1 second")
    yield* until(id, ({ status }) => status === "succeeded")
  }))

scenario(
  "a worker ends nothing by a clock of the store that was set since it looked, and goes on once it has looked again",
  (world) =>
    Effect.gen(function*() {
      const process = yield* startWorker(world)
      const { agent, id } = yield* running(world)
      yield* agent.end({ state: "succeeded" })
      yield* settle
      process.skewMillis = -HOUR
      yield* pass("31 minutes")
      assert.strictEqual((yield* find(id)).status, "running")
      process.skewMillis = 0
      yield* pass("1 second")
      yield* until(id, ({ status }) => status === "succeeded")
    })
)
