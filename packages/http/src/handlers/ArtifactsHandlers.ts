/** Translates requests for artifacts into domain calls. */
import { Api } from "@slipway/api/Api"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { Artifacts } from "@slipway/domain/files/usecases/Artifacts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { LiveResponses } from "../server/connection/LiveResponses.ts"
import * as Wire from "../server/connection/Wire.ts"
import * as ArtifactReply from "../server/reply/ArtifactReply.ts"
import { respond } from "../server/reply/Respond.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "artifacts",
  Effect.fn(function*(handlers) {
    const artifacts = yield* Artifacts
    const live = yield* LiveResponses

    return handlers.handleAll({
      listArtifacts: Effect.fnUntraced(function*({ params: { sandboxId } }) {
        return yield* artifacts.list(yield* CurrentPrincipal, sandboxId)
      }),
      getArtifact: Effect.fnUntraced(
        function*({ params: { name, sandboxId }, request }) {
          const by = yield* CurrentPrincipal
          const opened = yield* artifacts.open(by, sandboxId, name)
          yield* live.download(by, Wire.of(request), sandboxId)
          return ArtifactReply.reply(opened, request.headers, null)
        },
        Effect.catchTag("Refusal", (refusal) => Effect.succeed(respond(refusal)))
      )
    })
  })
)
