/**
 * Compares the boxes and trees of this machine with the store, and removes those that no sandbox needs: their sandbox ended without
 * this worker, never existed, or runs on another machine.
 */
import { CheckpointTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Metric, Option } from "effect"
import { FreshCloneIds } from "../setup/FreshClones.ts"
import { MachineLock } from "../shared/MachineLock.ts"
import { giveBack, removeHere } from "../shared/ReleaseSandbox.ts"

const reaped = Metric.counter("slipway_orphans_reaped_total", {
  description: "Sandboxes whose remains on the machine this worker removed.",
  incremental: true
})

/** Leaves live sandboxes of this machine alone, of this worker and of others. */
export const reapOrphans = Effect.fn("ReapOrphans.reapOrphans")(function*() {
  // Shows 0 from the start.
  yield* Metric.value(reaped)
  const maintenance = yield* Maintenance
  const host = yield* SandboxHost
  const trees = yield* WorkingTrees
  const machine = yield* MachineLock
  const restored = yield* Effect.serviceOption(CheckpointTrees)
  const clones = yield* FreshCloneIds
  const moved = new Set<SandboxId>()
  const find = Effect.gen(function*() {
    const boxes = yield* Effect.catchTag(
      host.list,
      "HostError",
      (error) => Effect.as(Effect.logWarning("could not list the boxes", error), [])
    )
    const there = new Set([...boxes, ...(yield* trees.sandboxes)])
    const found = Array.from(there).filter((id) => !clones.has(id) && !(Option.isSome(restored) && restored.value.has(id)))
    const left = yield* maintenance.left(machine.name, found)
    for (const id of left.moved) moved.add(id)
    return [...left.over, ...left.moved]
  })
  yield* machine.forUnused(find, (id) =>
    (moved.has(id) ? removeHere(id) : giveBack(id)).pipe(
      Effect.tap(Effect.logInfo("gave back what was left of a sandbox")),
      Effect.tap(Metric.update(reaped, 1)),
      Effect.catchTag("HostError", (error) => Effect.logError("something of a sandbox that is not here is left", error)),
      Effect.annotateLogs({ sandboxId: id })
    ))
})
