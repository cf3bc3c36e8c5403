import { assert } from "@effect/vitest"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { Timing } from "@slipway/worker/shared/Timing"
import { DateTime, Duration, Effect, Stream } from "effect"
import { create, find, log, pass, scenario, startWorker } from "../Doubles.ts"

scenario(
  "the events of a sandbox are kept for its life and the retention, and are purged within the hour after",
  (world) =>
    Effect.gen(function*() {
      const limits = { ...(yield* Policy), retention: Duration.hours(3) }
      const timing = { ...(yield* Timing), tick: Duration.minutes(1) }
      yield* startWorker(world, { slots: 0 }).pipe(Effect.provideService(Policy, limits), Effect.provideService(Timing, timing))
      const id = yield* create()
      yield* pass(limits.queue)
      const { lastSeq, status } = yield* find(id)
      assert.strictEqual(status, "failed")
      yield* pass(Duration.subtract(limits.retention, Duration.seconds(1)))
      assert.strictEqual((yield* log(id)).length, lastSeq)
      yield* pass("61 minutes")
      assert.deepStrictEqual(yield* log(id), [])
      assert.strictEqual((yield* find(id)).lastSeq, lastSeq)
    })
)

scenario(
  "what a worker left of a checkpoint that was never recorded is forgotten within the hour",
  (world) =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const { queue } = yield* Policy
      yield* startWorker(world, { slots: 0 })
      yield* create()
      const [taken] = yield* (yield* Leases).take({ worker: "lost", machine: "lost" }, { slots: 1, boots: 1, errands: 0 })
      if (taken === undefined) return assert.fail("it was not leased")
      yield* checkpoints.put(taken.lease, 1, Stream.make(new Uint8Array(9)))
      yield* pass(Duration.sum(queue, Duration.minutes(61)))
      assert.strictEqual(yield* checkpoints.prune(DateTime.makeUnsafe(0), 10), 0)
    })
)
