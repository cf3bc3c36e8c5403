/**
 * Compares what this machine holds with what the store knows, and gives back what no sandbox needs: boxes and trees of
 * sandboxes that ended without this worker, or that never were.
 */
import { Effect } from "effect"
import { WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import { SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import type { SandboxId } from "@slipway/domain/sandbox/SandboxId"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { giveBack } from "./ReleaseSandbox.ts"

/** `isHeld`: a session of this worker takes care of it. */
export const reapOrphans = Effect.fn("ReapOrphans.reapOrphans")(function*(isHeld: (id: SandboxId) => boolean) {
  const store = yield* SandboxStore
  const host = yield* SandboxHost
  const trees = yield* WorkingTrees
  const boxes = yield* Effect.catchTag(host.list, "HostError", (error) =>
    Effect.as(Effect.logWarning("could not list the boxes", error), []))
  const found = new Set([...boxes, ...(yield* trees.sandboxes)])
  const orphans = (yield* store.over(Array.from(found))).filter((id) => !isHeld(id))
  yield* Effect.forEach(orphans, (id) =>
    giveBack(id).pipe(
      Effect.tap(Effect.logInfo("gave back what was left of a sandbox")),
      Effect.catchTag("HostError", (error) => Effect.logError("something of a finished sandbox is left", error)),
      Effect.annotateLogs({ sandboxId: id })
    ), { discard: true })
})
