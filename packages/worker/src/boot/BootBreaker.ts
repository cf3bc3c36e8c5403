/**
 * Keeps a worker that breaks every boot from breaking those that another one would get through: it begins none for a while
 * (docs/decisions/15).
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { observed } from "@slipway/domain/observability/Metrics"
import { WorkerReadiness } from "@slipway/domain/sandbox/ports/WorkerReadiness"
import { Effect, Metric } from "effect"
import { elapsedMillis } from "../shared/Elapsed.ts"

/** Boots of different sandboxes that fail in a row before it opens. */
const FAILURES = 5
const FIRST_PAUSE_MILLIS = 10_000
const MAX_PAUSE_MILLIS = 300_000

export interface BootBreaker {
  /** How many boots may be under way at once. After a pause one, until that one is through. */
  readonly allowed: Effect.Effect<number>
  /** A boot failed for a reason of this machine. Says whether this worker breaks every one: it is not the sandbox's fault then. */
  failed(id: SandboxId, reason: string): Effect.Effect<boolean>
  /** A boot came as far as its agent: this machine did its part, whatever becomes of the agent. */
  readonly succeeded: Effect.Effect<void>
}

const gauge = Metric.gauge("slipway_worker_boots_paused", {
  description: "1: this worker begins no boots for a while, since it broke the last ones. 0: it does."
})

export const make = Effect.gen(function*() {
  const trouble = yield* WorkerReadiness
  /** Those that failed since the last boot for which this machine did its part. */
  let failed: ReadonlySet<SandboxId> = new Set()
  let pauses = 0
  /** By `elapsedMillis`. */
  let until = 0

  const isOpen = () => pauses > 0
  const problem = Effect.map(
    elapsedMillis,
    (now) =>
      !isOpen() || now >= until
        ? null
        : `The last ${failed.size} boots here failed for reasons of this machine, so its worker begins none for a while. The log says why.`
  )
  yield* observed(gauge, () => ({ value: isOpen() ? 1 : 0 }))
  yield* trouble.report(problem)

  const breaker: BootBreaker = {
    allowed: Effect.map(elapsedMillis, (now) => !isOpen() ? Infinity : now < until ? 0 : 1),
    failed: Effect.fnUntraced(function*(id, why) {
      const now = yield* elapsedMillis
      failed = new Set([...failed, id])
      if (failed.size < FAILURES) return false
      // The failure of a boot that began before the pause adds nothing.
      if (isOpen() && now < until) return true
      const pause = Math.min(FIRST_PAUSE_MILLIS * 2 ** pauses, MAX_PAUSE_MILLIS)
      pauses++
      until = now + pause
      yield* Effect.logError("boots fail one after the other: this worker begins none for a while", {
        pauseMillis: pause,
        failed: failed.size,
        why
      })
      return true
    }),
    succeeded: Effect.suspend(() => {
      const wasOpen = isOpen()
      failed = new Set()
      pauses = 0
      return wasOpen ? Effect.logInfo("a boot went through: this worker begins boots again") : Effect.void
    })
  }
  return breaker
})
