/**
 * Compares what this machine holds with what the store knows, and gives back what no sandbox needs: boxes and trees of
 * sandboxes that ended without this worker, or that never were.
 */
import { WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import { SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { Upkeep } from "@slipway/domain/sandbox/Upkeep"
import { Effect, Metric } from "effect"
import { giveBack } from "./ReleaseSandbox.ts"

const reaped = Metric.counter("slipway_orphans_reaped_total", {
  description: "Sandboxes of which this worker gave back what nobody had given back.",
  incremental: true
})

/** Leaves alone whatever is still live, in whoever's hands. */
export const reapOrphans = Effect.fn("ReapOrphans.reapOrphans")(function*() {
  // Seen at 0 from the first look on.
  yield* Metric.value(reaped)
  const upkeep = yield* Upkeep
  const host = yield* SandboxHost
  const trees = yield* WorkingTrees
  const boxes = yield* Effect.catchTag(
    host.list,
    "HostError",
    (error) => Effect.as(Effect.logWarning("could not list the boxes", error), [])
  )
  const found = new Set([...boxes, ...(yield* trees.sandboxes)])
  const orphans = yield* upkeep.over(Array.from(found))
  yield* Effect.forEach(orphans, (id) =>
    giveBack(id).pipe(
      Effect.tap(Effect.logInfo("gave back what was left of a sandbox")),
      Effect.tap(Metric.update(reaped, 1)),
      Effect.catchTag("HostError", (error) => Effect.logError("something of a finished sandbox is left", error)),
      Effect.annotateLogs({ sandboxId: id })
    ), { discard: true })
})
