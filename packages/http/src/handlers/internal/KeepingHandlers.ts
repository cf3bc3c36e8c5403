/** Translates requests that delete and archive sandboxes into domain calls. */
import { InternalApi } from "@slipway/api/InternalApi"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { DateTime, Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"

export const layer = HttpApiBuilder.group(
  InternalApi,
  "keeping",
  Effect.fn(function*(handlers) {
    const sandboxes = yield* Sandboxes
    const dashboard = yield* SandboxDashboard

    const archive = Effect.fnUntraced(function*(id: SandboxId, isArchived: boolean) {
      const by = yield* CurrentPrincipal
      yield* sandboxes.get(by, id)
      yield* dashboard.archive(by.grantId, [id], isArchived, yield* DateTime.now)
    })

    return handlers.handleAll({
      deleteSandbox: Effect.fnUntraced(function*({ params: { sandboxId } }) {
        yield* sandboxes.delete(yield* CurrentPrincipal, sandboxId)
      }),
      archiveSandbox: ({ params: { sandboxId } }) => archive(sandboxId, true),
      unarchiveSandbox: ({ params: { sandboxId } }) => archive(sandboxId, false),
      archivedSandboxes: Effect.fnUntraced(function*({ query: { ids } }) {
        return { data: [...yield* dashboard.archived((yield* CurrentPrincipal).grantId, ids)] }
      })
    })
  })
)
