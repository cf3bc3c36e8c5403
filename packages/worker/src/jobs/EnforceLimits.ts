/**
 * Ends sandboxes whose grant was revoked, and applies the time limits of all others (docs/decisions/2.1, 2.2 and 9). Every worker
 * whose machine's clock is right does, so none is missed when one dies. What time it is the store says.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type Due, type DuePage, Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { count } from "@slipway/domain/sandbox/usecases/SandboxMetrics"
import { ClockSkew, skewProblem } from "@slipway/domain/sandbox/usecases/StoreClock"
import { DateTime, Effect } from "effect"

/** Sandboxes in one read. */
const PAGE = 100

/** Applies every limit whose time has come. */
export const enforceLimits = Effect.fn("EnforceLimits.enforceLimits")(function*() {
  const store = yield* SandboxStore
  const maintenance = yield* Maintenance
  const limits = yield* Policy
  if (skewProblem(yield* yield* ClockSkew) !== null) return

  /** Whether the page is worth another one: it was full, and something was changed or could not be. */
  const apply = Effect.fnUntraced(function*(command: "Expire" | "RevokeGrant", ids: ReadonlyArray<SandboxId>, now: DateTime.Utc) {
    const outcomes = yield* Effect.forEach(
      ids,
      (id) =>
        store.change(id, "policy", (sandbox) => decide(sandbox, { _tag: command }, { limits, now }), now).pipe(
          Effect.tap(count),
          Effect.map(({ events }) => events.length > 0 ? "changed" : "unchanged"),
          // One sandbox's trouble must not keep the limits from the others.
          Effect.catchTag(
            ["IllegalTransition", "SandboxNotFound"],
            (error) => Effect.as(Effect.logError("a limit could not be applied", error), "failed")
          )
        )
    )
    return { isFull: ids.length === PAGE, changed: outcomes.includes("changed"), failed: outcomes.includes("failed") }
  })

  for (;;) {
    const { changed, isFull } = yield* apply("RevokeGrant", yield* maintenance.ofRevokedGrants(PAGE), yield* DateTime.now)
    if (!isFull || !changed) break
  }

  // Each page begins behind the one before it, so that the round ends whatever becomes of them. Another worker may be doing the same:
  // then a page changes nothing.
  let after: Due | null = null
  for (;;) {
    const page: DuePage = yield* maintenance.due(PAGE, after)
    // The store's clock was set since this process looked at it: that may have been a mistake, and ends are for good.
    if (skewProblem(Math.abs(DateTime.toEpochMillis(yield* DateTime.now) - DateTime.toEpochMillis(page.now))) !== null) return
    const { changed, failed, isFull } = yield* apply("Expire", page.ids, page.now)
    if (!isFull || !changed && !failed) return
    after = page.last
  }
})
