/**
 * Forgets what nobody was promised any longer: the events and traces of sandboxes that ended long ago, idempotency keys, and checkpoints
 * (docs/decisions.md 4, 5, 16 and 19).
 */
import { Checkpoints } from "@slipway/domain/sandbox/Checkpoints"
import { Policy } from "@slipway/domain/sandbox/Policy"
import { Upkeep } from "@slipway/domain/sandbox/Upkeep"
import { DateTime, Effect, Metric } from "effect"

/** Sandboxes in one transaction: a log may be long. */
const SANDBOXES = 20
const KEYS = 1000

const forgotten = Metric.counter("slipway_event_logs_purged_total", {
  description: "Sandboxes whose events this process forgot because their time was over.",
  incremental: true
})

/** Every worker may do it: what one is at, others leave alone. */
export const purgeEvents = Effect.fn("PurgeEvents.purgeEvents")(function*() {
  const upkeep = yield* Upkeep
  const checkpoints = yield* Checkpoints
  // Seen at 0 from the first look on.
  yield* Metric.value(forgotten)
  const { retention } = yield* Policy
  const endedBefore = DateTime.subtractDuration(yield* DateTime.now, retention)
  let purged = 0
  for (let found = SANDBOXES; found === SANDBOXES; purged += found) {
    found = yield* Effect.tap(upkeep.purgeEvents(endedBefore, SANDBOXES), (found) => Metric.update(forgotten, found))
  }
  while ((yield* upkeep.purgeKeys(KEYS)) === KEYS) continue
  while ((yield* checkpoints.prune(endedBefore, SANDBOXES)) === SANDBOXES) continue
  if (purged > 0) yield* Effect.logInfo("purged the events of sandboxes that ended long ago", { sandboxes: purged })
})
