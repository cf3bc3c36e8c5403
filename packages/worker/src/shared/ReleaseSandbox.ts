/** The end of a sandbox on this machine: no process, no box, no tree of it is left, and nothing reserved for its model. */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { ModelGateway } from "@slipway/domain/models/ports/ModelGateway"
import { HostError, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Option, Schedule } from "effect"
import { type LeasedSandbox, untilAvailable } from "./LeasedSandbox.ts"

/** Kills what runs here and deletes what is stored here. Safe to repeat. The sandbox may go on elsewhere, or here again. */
export const removeHere = Effect.fn("ReleaseSandbox.removeHere")(function*(id: SandboxId) {
  const host = yield* SandboxHost
  const trees = yield* WorkingTrees
  yield* host.stop(id)
  yield* Effect.catchTag(
    trees.remove(id),
    "TreesUnavailable",
    ({ detail }) => new HostError({ operation: "stop", detail, retryable: true })
  )
})

/** Kills what runs and deletes what is stored. Safe to repeat. */
export const giveBack = Effect.fn("ReleaseSandbox.giveBack")(function*(id: SandboxId) {
  yield* removeHere(id)
  const gateway = yield* Effect.serviceOption(ModelGateway)
  if (Option.isSome(gateway)) yield* untilAvailable(gateway.value.forget(id))
})

const backoff = Schedule.min([Schedule.exponential("500 millis"), Schedule.spaced("30 seconds")])

/** Carries a terminating sandbox to its end. A host that refuses is asked until a time limit calls it failed. */
export const release = Effect.fn("ReleaseSandbox.release")(function*(leased: LeasedSandbox) {
  const gone = giveBack(leased.id).pipe(
    Effect.tapError((error) => Effect.logWarning("could not release the sandbox", error)),
    Effect.retry(backoff),
    Effect.catchTag("HostError", Effect.die)
  )
  yield* Effect.raceFirst(
    Effect.andThen(gone, leased.write([{ _tag: "Release" }])),
    leased.until(({ detached, sandbox }) => detached || sandbox.status !== "terminating")
  )
})

/** Gives back what a succeeded or failed sandbox held. What a host refuses is left to the reaper. */
export const cleanUp = Effect.fn("ReleaseSandbox.cleanUp")(function*(leased: LeasedSandbox) {
  yield* giveBack(leased.id).pipe(
    Effect.retry({ times: 3, schedule: backoff }),
    Effect.catchTag("HostError", (error) => Effect.logError("something of a finished sandbox is left", error))
  )
})
