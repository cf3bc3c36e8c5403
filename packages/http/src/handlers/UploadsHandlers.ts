/** Translates requests for files of prompts into domain calls. */
import { Api } from "@slipway/api/Api"
import { RateLimited, UnsupportedMediaType } from "@slipway/api/shared/Errors"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { Uploads } from "@slipway/domain/files/usecases/Uploads"
import { IMAGE_TYPES } from "@slipway/domain/models/rules/Images"
import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Counter } from "../server/connection/Connections.ts"
import { LiveResponses } from "../server/connection/LiveResponses.ts"
import * as Wire from "../server/connection/Wire.ts"
import { attachment } from "../server/reply/ContentDisposition.ts"
import { respond } from "../server/reply/Respond.ts"
import { receive } from "../server/request/ReceivedFile.ts"
import { nameIn } from "../server/request/UploadedName.ts"

/** Uploads of one grant at once in this process: each has up to 20 MiB on its disk. */
const AT_ONCE = 4

const busy = RateLimited.make(`This grant has ${AT_ONCE} uploads under way already.`, { "retry-after": "1" })

/** Nothing that a file contains may run in the origin of the service, whatever a browser takes it for. */
const inert = { "content-security-policy": "default-src 'none'; sandbox", "accept-ranges": "none" }

export const layer = HttpApiBuilder.group(
  Api,
  "uploads",
  Effect.fn(function*(handlers) {
    const uploads = yield* Uploads
    const live = yield* LiveResponses
    const underWay = new Counter()

    /** Counts an upload until the scope closes. */
    const enter = Effect.fnUntraced(function*(grantId: string) {
      if (underWay.of(grantId) >= AT_ONCE) return yield* busy
      yield* Effect.acquireRelease(
        Effect.sync(() => underWay.add(grantId, 1)),
        () => Effect.sync(() => underWay.add(grantId, -1))
      )
    })

    const upload = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
      const by = yield* CurrentPrincipal
      const { headers } = request
      if (!/^(?:identity)?$/iu.test(headers["content-encoding"] ?? "")) {
        return yield* UnsupportedMediaType.make("The body must not be encoded.")
      }
      const announced = Number(headers["content-length"] ?? 0)
      yield* uploads.admit(by, Number.isSafeInteger(announced) ? announced : 0)
      yield* enter(by.grantId)
      const received = yield* Effect.catchTag(receive(request.stream), "HttpServerError", Effect.die)
      return yield* uploads.add(by, { ...received, name: nameIn(headers["content-disposition"]), mediaType: headers["content-type"] })
    }, Effect.scoped)

    return handlers
      .handleRaw("uploadFile", ({ request }) =>
        upload(request).pipe(
          // The rest of the body is not read.
          Effect.tapErrorTag("UploadTooLarge", () => Effect.sync(() => Wire.of(request).closeAfter())),
          Effect.catchTag("Refusal", (refusal) => Effect.succeed(respond(refusal)))
        ))
      .handleAll({
        getFile: Effect.fnUntraced(function*({ params: { fileId } }) {
          return yield* uploads.get(yield* CurrentPrincipal, fileId)
        }),
        getFileBytes: Effect.fnUntraced(
          function*({ params: { fileId }, request }) {
            const by = yield* CurrentPrincipal
            const { content, file: { mediaType, name, size } } = yield* uploads.open(by, fileId)
            yield* live.download(by, Wire.of(request), null)
            return HttpServerResponse.stream(content, {
              contentType: IMAGE_TYPES.has(mediaType) ? mediaType : "application/octet-stream",
              contentLength: size,
              headers: { ...inert, "content-disposition": attachment(name) }
            })
          },
          Effect.catchTag("Refusal", (refusal) => Effect.succeed(respond(refusal)))
        )
      })
  })
)
