/**
 * Ends machines of workers that never came back, once their sandboxes need them no longer. Workers end their own machines themselves.
 */
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import type { Machines } from "@slipway/runner/machines/Machines"
import { Effect, Layer, Schedule } from "effect"

/** Such machines have waited for ten minutes already, and each look lists all machines of the installation. */
const EVERY = "10 minutes"

export const layer = ({ removeAbandoned }: Machines["Service"]) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { unneeded } = yield* Maintenance
    const look = removeAbandoned(unneeded).pipe(
      Effect.flatMap((sandboxIds) =>
        sandboxIds.length === 0
          ? Effect.void
          : Effect.logInfo("ended machines of workers that did not come back", { sandboxes: sandboxIds })
      ),
      Effect.catchCause((cause) => Effect.logWarning("machines of workers that did not come back could not be ended", cause))
    )
    yield* Effect.forkScoped(Effect.repeat(look, Schedule.spaced(EVERY)))
  }))
