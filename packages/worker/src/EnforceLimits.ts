/** Ends sandboxes whose grant was revoked, and applies the time limits of all others (decisions 2.1, 2.2 and 9). Every worker does, so none is missed when one dies. */
import { DateTime, Effect } from "effect"
import { Policy } from "@slipway/domain/sandbox/Policy"
import { decide } from "@slipway/domain/sandbox/SystemCommand"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"

/** Sandboxes in one read. */
const PAGE = 100

/** Applies every limit whose time has come. */
export const enforceLimits = Effect.fn("EnforceLimits.enforceLimits")(function*() {
  const store = yield* SandboxStore
  const limits = yield* Policy

  const apply = (command: "Expire" | "RevokeGrant", find: (now: DateTime.Utc) => ReturnType<typeof store.ofRevokedGrants>) =>
    Effect.gen(function*() {
      for (;;) {
        const now = yield* DateTime.now
        const found = yield* find(now)
        yield* Effect.forEach(found, (id) =>
          store.change(id, "policy", (sandbox) => decide(sandbox, { _tag: command }, { limits, now }), now).pipe(
            // One sandbox's trouble must not keep the limits from the others.
            Effect.catchTag(["IllegalTransition", "SandboxNotFound"], (error) => Effect.logError("a limit could not be applied", error))
          ), { discard: true })
        if (found.length < PAGE) return
      }
    })

  yield* apply("RevokeGrant", () => store.ofRevokedGrants(PAGE))
  yield* apply("Expire", (now) => store.due(now, PAGE))
})
