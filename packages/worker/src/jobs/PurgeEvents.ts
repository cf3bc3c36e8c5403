/**
 * Deletes data after its retention: events and traces of ended sandboxes, idempotency keys, finished calls of models, and
 * checkpoints (docs/decisions/4, 5, 16, 19 and 29). A grant may have its own retention.
 */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { ownTimes } from "@slipway/domain/access/rules/Retention"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { DateTime, Duration, Effect, Metric, Option } from "effect"

/** Sandboxes in one transaction. */
const SANDBOXES = 20
const KEYS = 1000
const CALLS = 1000

/** How long a charge of a call may be repeated. */
const CALLS_KEPT = Duration.days(1)

const forgotten = Metric.counter("slipway_event_logs_purged_total", {
  description: "Sandboxes whose events this process forgot because their time was over.",
  incremental: true
})

/** Any worker may do it: workers skip rows that another worker has locked. */
export const purgeEvents = Effect.fn("PurgeEvents.purgeEvents")(function*() {
  const maintenance = yield* Maintenance
  const checkpoints = yield* Checkpoints
  // Shows 0 from the start.
  yield* Metric.value(forgotten)
  const { retention } = yield* Policy
  const now = yield* DateTime.now
  const endedBefore = DateTime.subtractDuration(now, retention)
  const access = yield* Effect.serviceOption(AccessStore)
  const own = ownTimes(Option.isNone(access) ? [] : yield* access.value.listGrants, now)
  let purged = 0
  for (let more = true; more;) {
    const { more: left, sandboxes } = yield* maintenance.purgeEvents(endedBefore, SANDBOXES, own)
    yield* Metric.update(forgotten, sandboxes)
    purged += sandboxes
    more = left
  }
  while ((yield* maintenance.purgeKeys(KEYS)) === KEYS) continue
  const spending = yield* Effect.serviceOption(Spending)
  if (Option.isSome(spending)) {
    const over = DateTime.subtractDuration(yield* DateTime.now, CALLS_KEPT)
    while ((yield* spending.value.prune(over, CALLS)) === CALLS) continue
  }
  while ((yield* checkpoints.prune(endedBefore, SANDBOXES, own)) === SANDBOXES) continue
  if (purged > 0) yield* Effect.logInfo("purged the events of sandboxes that ended long ago", { sandboxes: purged })
})
