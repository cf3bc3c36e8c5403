/** Forgets what nobody was promised any longer: the events of sandboxes that ended long ago, and idempotency keys (decisions, sections 4 and 5). */
import { Policy } from "@slipway/domain/sandbox/Policy"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { DateTime, Effect } from "effect"

/** Sandboxes in one transaction: a log may be long. */
const SANDBOXES = 20
const KEYS = 1000

/** Every worker may do it: what one is at, others leave alone. */
export const purgeEvents = Effect.fn("PurgeEvents.purgeEvents")(function*() {
  const store = yield* SandboxStore
  const { retention } = yield* Policy
  const endedBefore = DateTime.subtractDuration(yield* DateTime.now, retention)
  let purged = 0
  for (let found = SANDBOXES; found === SANDBOXES; purged += found) found = yield* store.purgeEvents(endedBefore, SANDBOXES)
  while ((yield* store.purgeKeys(KEYS)) === KEYS) continue
  if (purged > 0) yield* Effect.logInfo("purged the events of sandboxes that ended long ago", { sandboxes: purged })
})
