import { assert, describe, it } from "@effect/vitest"
import { TreesUnavailable } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { AgentError } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as WorkerReadiness from "@slipway/domain/sandbox/ports/WorkerReadiness"
import * as BootBreaker from "@slipway/worker/boot/BootBreaker"
import { Effect, Logger, Metric } from "effect"
import { TestClock } from "effect/testing"
import { create, find, pass, scenario, settle, startWorker, until, type World } from "../Doubles.ts"

const broken = (times: number) =>
  Array.from({ length: times }, () => new HostError({ operation: "provision", detail: "no user namespaces", retryable: false }))

scenario(
  "a worker that breaks five boots in a row begins none for a growing time, and costs no other sandbox its boot",
  (world) =>
    Effect.gen(function*() {
      const trouble = yield* WorkerReadiness.WorkerReadiness
      world.provisionFailures.push(...broken(7))
      yield* startWorker(world, { slots: 1 })
      const first = yield* Effect.forEach([1, 2, 3, 4], () => create())
      yield* pass("5 seconds")
      for (const id of first) assert.strictEqual((yield* find(id)).reason, "boot_failed")
      assert.isNull(yield* trouble.problem)

      const fifth = yield* create()
      yield* pass("9 seconds")
      assert.strictEqual((yield* find(fifth)).status, "creating")
      assert.strictEqual(world.provisionFailures.length, 2)
      assert.strictEqual(
        yield* trouble.problem,
        "The last 5 boots here failed for reasons of this machine, so its worker begins none for a while. The log says why."
      )
      yield* pass("5 seconds")
      // One is tried after the pause, and the next pause is longer.
      assert.strictEqual(world.provisionFailures.length, 1)
      yield* pass("14 seconds")
      assert.strictEqual(world.provisionFailures.length, 1)
      yield* pass("60 seconds")
      yield* settle
      assert.strictEqual((yield* find(fifth)).status, "running")
      assert.isNull(yield* trouble.problem)
    }).pipe(Effect.provide(WorkerReadiness.layer))
)

scenario(
  "a boot that goes through ends all pauses, however many there were: the next ones are as short as the first",
  () =>
    Effect.gen(function*() {
      const breaker = yield* BootBreaker.make
      const fail = Effect.forEach([1, 2, 3, 4, 5], () => Effect.flatMap(create(), (id) => breaker.failed(id, "no user namespaces")))
      for (const _ of ["first", "after a boot that went through"]) {
        assert.strictEqual(yield* breaker.allowed, Infinity)
        for (const seconds of [10, 20, 40]) {
          yield* fail
          yield* pass(`${seconds - 1} seconds`)
          assert.strictEqual(yield* breaker.allowed, 0)
          yield* pass("1 second")
          assert.strictEqual(yield* breaker.allowed, 1)
        }
        yield* breaker.succeeded
      }
    }).pipe(Effect.provide(WorkerReadiness.layer))
)

describe("a breaker", () => {
  const ids = Array.from("abcdefgh", (letter) => SandboxId.make(`c_${letter.repeat(12)}`))
  const fail = (breaker: BootBreaker.BootBreaker, times: number) =>
    Effect.forEach(ids.slice(0, times), (id) => breaker.failed(id, "no user namespaces"))
  const state = (breaker: BootBreaker.BootBreaker) =>
    Effect.gen(function*() {
      const { problem } = yield* WorkerReadiness.WorkerReadiness
      const gauge = (yield* Metric.snapshot).find(({ id }) => id === "slipway_worker_boots_paused")
      assert.match(gauge?.description ?? "", /^1: this worker begins no boots/u)
      return { allowed: yield* breaker.allowed, isWell: (yield* problem) === null, gauge: gauge?.state }
    })
  const closed = { allowed: Infinity, isWell: true, gauge: { value: 0 } }
  const paused = { allowed: 0, isWell: false, gauge: { value: 1 } }
  const trying = { allowed: 1, isWell: true, gauge: { value: 1 } }

  it.effect("opens at the fifth failure of different sandboxes, until the pause is over", () =>
    Effect.gen(function*() {
      const breaker = yield* BootBreaker.make
      assert.deepStrictEqual(yield* state(breaker), closed)
      assert.deepStrictEqual(yield* fail(breaker, 4), [false, false, false, false])
      assert.deepStrictEqual(yield* fail(breaker, 4), [false, false, false, false])
      assert.deepStrictEqual(yield* state(breaker), closed)
      assert.isTrue(yield* breaker.failed(SandboxId.make("c_zzzzzzzzzzzz"), "no user namespaces"))
      yield* TestClock.adjust("9999 millis")
      assert.deepStrictEqual(yield* state(breaker), paused)
      // A boot that began before the pause: it changes nothing.
      assert.deepStrictEqual(yield* fail(breaker, 1), [true])
      yield* TestClock.adjust("1 milli")
      assert.deepStrictEqual(yield* state(breaker), trying)
    }).pipe(Effect.scoped, Effect.provide(WorkerReadiness.layer)))

  it.effect("never pauses for longer than five minutes", () =>
    Effect.gen(function*() {
      const breaker = yield* BootBreaker.make
      yield* fail(breaker, 5)
      for (const pause of [10, 20, 40, 80, 160, 300, 300]) {
        yield* TestClock.adjust(pause * 1_000 - 1)
        assert.deepStrictEqual(yield* state(breaker), paused)
        yield* TestClock.adjust(1)
        assert.deepStrictEqual(yield* state(breaker), trying)
        assert.deepStrictEqual(yield* fail(breaker, 1), [true])
      }
    }).pipe(Effect.scoped, Effect.provide(WorkerReadiness.layer)))

  it.effect("closes at a boot that goes through, also within a pause, and opens again like the first time", () =>
    Effect.gen(function*() {
      const breaker = yield* BootBreaker.make
      yield* fail(breaker, 5)
      yield* TestClock.adjust("1 second")
      yield* breaker.succeeded
      assert.deepStrictEqual(yield* state(breaker), closed)
      assert.deepStrictEqual(yield* fail(breaker, 5), [false, false, false, false, true])
      yield* TestClock.adjust("9999 millis")
      assert.deepStrictEqual(yield* state(breaker), paused)
      yield* TestClock.adjust("1 milli")
      assert.deepStrictEqual(yield* state(breaker), trying)
    }).pipe(Effect.scoped, Effect.provide(WorkerReadiness.layer)))

  it.effect("tells the log why it opens, and when boots go on", () => {
    const told: Array<unknown> = []
    const logger = Logger.make(({ logLevel, message }) => void told.push([logLevel, message]))
    return Effect.gen(function*() {
      const breaker = yield* BootBreaker.make
      yield* breaker.succeeded
      yield* fail(breaker, 5)
      yield* breaker.succeeded
      assert.deepStrictEqual(told, [
        ["Error", ["boots fail one after the other: this worker begins none for a while", {
          pauseMillis: 10_000,
          failed: 5,
          why: "no user namespaces"
        }]],
        ["Info", ["a boot went through: this worker begins boots again"]]
      ])
    }).pipe(Effect.scoped, Effect.provide([WorkerReadiness.layer, Logger.layer([logger])]))
  })
})

const agentErrors = (times: number, more: { readonly refusedByHost?: boolean } = {}) =>
  Array.from(
    { length: times },
    () => new AgentError({ runtime: "fake", operation: "open", detail: "not installed", retryable: false, ...more })
  )

const failedWith = (reason: string | null) => (id: SandboxId) =>
  Effect.map(until(id, ({ status }) => status === "failed"), (sandbox) => assert.strictEqual(sandbox.reason, reason))

scenario("an agent that does not start stops no worker, however many sandboxes want it: others boot", (world) =>
  Effect.gen(function*() {
    const { problem } = yield* WorkerReadiness.WorkerReadiness
    world.openFailures.push(...agentErrors(8))
    yield* startWorker(world, { slots: 1 })
    const broken = yield* Effect.forEach(Array.from({ length: 8 }), () => create())
    yield* pass("1 second")
    yield* Effect.forEach(broken, failedWith("boot_failed"))
    assert.isNull(yield* problem)
    const id = yield* create()
    yield* pass("1 second")
    assert.strictEqual((yield* find(id)).status, "running")
  }).pipe(Effect.provide(WorkerReadiness.layer)))

scenario(
  "boots that fail for the machine are in a row only if none between them came as far as its agent",
  (world) =>
    Effect.gen(function*() {
      const { problem } = yield* WorkerReadiness.WorkerReadiness
      world.provisionFailures.push(...broken(4))
      yield* startWorker(world, { slots: 1 })
      const failing = Effect.forEach([1, 2, 3, 4], () => create())
      yield* failing
      yield* pass("5 seconds")
      world.openFailures.push(...agentErrors(1))
      yield* create()
      yield* pass("5 seconds")
      world.provisionFailures.push(...broken(4))
      yield* failing
      yield* pass("5 seconds")
      assert.deepStrictEqual([world.provisionFailures.length, world.openFailures.length, yield* problem], [0, 0, null])
    }).pipe(Effect.provide(WorkerReadiness.layer))
)

for (
  const [name, plant] of [
    ["a box that refuses to run any agent", (world: World) => world.openFailures.push(...agentErrors(5, { refusedByHost: true }))],
    ["a disk that takes nothing", (world: World) =>
      world.cloneFailures.push(
        ...Array.from({ length: 5 }, () => new TreesUnavailable({ detail: "The disk is read-only.", retryable: false }))
      )],
    // Each boot tries a step that breaks six times.
    ["a disk that breaks in unforeseen ways", (world: World) => world.defects.push(...Array.from({ length: 30 }, () => "clone" as const))]
  ] as const
) {
  scenario(`${name} is trouble of the machine`, (world) =>
    Effect.gen(function*() {
      const { problem } = yield* WorkerReadiness.WorkerReadiness
      plant(world)
      yield* startWorker(world, { slots: 5 })
      yield* Effect.forEach([1, 2, 3, 4, 5], () => create())
      const told = yield* Effect.forEach(Array.from({ length: 17 }), () => Effect.andThen(pass("1 second"), problem))
      assert.isTrue(told.some((one) => one !== null))
    }).pipe(Effect.provide(WorkerReadiness.layer)))
}
