import { assert } from "@effect/vitest"
import { Policy } from "@slipway/domain/sandbox/Policy"
import { Timing } from "@slipway/worker/Timing"
import { Duration, Effect } from "effect"
import { create, find, log, pass, scenario, startWorker } from "./Doubles.ts"

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
