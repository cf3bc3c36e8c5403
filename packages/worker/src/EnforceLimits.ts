/** Applies the time limits of all sandboxes (decisions 2.1 and 2.2). Every worker does, so none is missed when one dies. */
import { DateTime, Effect } from "effect"
import { Policy } from "@slipway/domain/sandbox/Policy"
import { decide } from "@slipway/domain/sandbox/Sandbox"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"

/** Sandboxes in one read. */
const PAGE = 100

/** Applies every limit whose time has come. */
export const enforceLimits = Effect.fn("EnforceLimits.enforceLimits")(function*() {
  const store = yield* SandboxStore
  const limits = yield* Policy
  for (;;) {
    const now = yield* DateTime.now
    const due = yield* store.due(now, PAGE)
    yield* Effect.forEach(due, (id) =>
      store.change(id, "policy", (sandbox) => decide(sandbox, { _tag: "Expire" }, { limits, now }), now).pipe(
        // One sandbox's trouble must not keep the limits from the others.
        Effect.catchTag(["IllegalTransition", "SandboxNotFound"], (error) => Effect.logError("a time limit could not be applied", error))
      ), { discard: true })
    if (due.length < PAGE) return
  }
})
