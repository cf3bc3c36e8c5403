/**
 * Ends sandboxes whose grant was revoked, and applies the time limits of all others (docs/decisions/2.1, 2.2 and 9). Every worker
 * with a correct clock does it, so no limit is missed when a worker dies. The store's clock decides.
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

/** Applies every limit that is due. */
export const enforceLimits = Effect.fn("EnforceLimits.enforceLimits")(function*() {
  const store = yield* SandboxStore
  const maintenance = yield* Maintenance
  const limits = yield* Policy
  if (skewProblem(yield* yield* ClockSkew) !== null) return

  /** Applies the command to a page. `isFull`: there may be another page. `failed`: a sandbox could not be changed. */
  const apply = Effect.fnUntraced(function*(command: "Expire" | "RevokeGrant", ids: ReadonlyArray<SandboxId>, now: DateTime.Utc) {
    const outcomes = yield* Effect.forEach(
      ids,
      (id) =>
        store.change(id, "policy", (sandbox) => decide(sandbox, { _tag: command }, { limits, now }), now).pipe(
          Effect.tap(count),
          Effect.map(({ events }) => events.length > 0 ? "changed" : "unchanged"),
          // An error of one sandbox must not stop the limits of the others.
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

  // Each page begins after the last one, so that the round ends even if sandboxes cannot be changed. A page changes nothing when
  // another worker was faster.
  let after: Due | null = null
  for (;;) {
    const page: DuePage = yield* maintenance.due(PAGE, after)
    // The store's clock was changed since this process read it. That may be a mistake, and an end cannot be undone.
    if (skewProblem(Math.abs(DateTime.toEpochMillis(yield* DateTime.now) - DateTime.toEpochMillis(page.now))) !== null) return
    const { changed, failed, isFull } = yield* apply("Expire", page.ids, page.now)
    if (!isFull || !changed && !failed) return
    after = page.last
  }
})
