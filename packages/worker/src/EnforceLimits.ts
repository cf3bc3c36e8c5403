/**
 * Ends sandboxes whose grant was revoked, and applies the time limits of all others (docs/decisions.md 2.1, 2.2 and 9). Every worker
 * whose machine's clock is right does, so none is missed when one dies. What time it is the store says.
 */
import { count } from "@slipway/domain/sandbox/Counting"
import { Policy } from "@slipway/domain/sandbox/Policy"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { ClockSkew, skewProblem } from "@slipway/domain/sandbox/StoreClock"
import { decide } from "@slipway/domain/sandbox/SystemCommand"
import { Upkeep } from "@slipway/domain/sandbox/Upkeep"
import { DateTime, Effect } from "effect"

/** Sandboxes in one read. */
const PAGE = 100

/** Applies every limit whose time has come. */
export const enforceLimits = Effect.fn("EnforceLimits.enforceLimits")(function*() {
  const store = yield* SandboxStore
  const upkeep = yield* Upkeep
  const limits = yield* Policy
  if (skewProblem(yield* yield* ClockSkew) !== null) return

  const apply = (command: "Expire" | "RevokeGrant", find: ReturnType<typeof upkeep.due>) =>
    Effect.gen(function*() {
      for (;;) {
        const { ids, now } = yield* find
        // The store's clock was set since this process looked at it: that may have been a mistake, and ends are for good.
        if (skewProblem(Math.abs(DateTime.toEpochMillis(yield* DateTime.now) - DateTime.toEpochMillis(now))) !== null) return
        yield* Effect.forEach(ids, (id) =>
          store.change(id, "policy", (sandbox) =>
            decide(sandbox, { _tag: command }, { limits, now }), now).pipe(
              Effect.tap(count),
              // One sandbox's trouble must not keep the limits from the others.
              Effect.catchTag(["IllegalTransition", "SandboxNotFound"], (error) => Effect.logError("a limit could not be applied", error))
            ), { discard: true })
        if (ids.length < PAGE) {
          return
        }
      }
    })

  yield* apply("RevokeGrant", Effect.all({ ids: upkeep.ofRevokedGrants(PAGE), now: DateTime.now }))
  yield* apply("Expire", upkeep.due(PAGE))
})
