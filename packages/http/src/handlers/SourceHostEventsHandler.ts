/** Where the source host tells by itself that something happened, if the operator set that up: `POST /hooks/source-host`. */
import { Unauthorized } from "@slipway/api/shared/Errors"
import { HandleNews } from "@slipway/domain/publishing/usecases/HandleNews"
import { SourceHostEvents } from "@slipway/domain/source/ports/SourceHostEvents"
import { ByteSize, Effect, Option, Semaphore } from "effect"
import { HttpIncomingMessage, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { Routes } from "../server/Routes.ts"

const PATH = "/hooks/source-host"

const MAX_BODY = ByteSize.mebibytes(1)

/** There is no registered scheme for signed bodies. */
const CHALLENGE = "Signature realm=\"slipway\""

/** Questions to the host at once: it may send many deliveries in a moment. */
const AT_ONCE = 8

/**
 * Answers as soon as it knows who sent it, since hosts wait a few seconds only. What is lost when the process ends then is
 * seen the next time somebody asks for the pull request.
 */
export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const configured = yield* Effect.serviceOption(SourceHostEvents)
  if (Option.isNone(configured)) return
  const { sent } = yield* HandleNews
  const scope = yield* Effect.scope
  const turnstile = Semaphore.makeUnsafe(AT_ONCE)
  const routes = yield* Routes
  routes.declare(PATH, ["POST"], "hooks")

  yield* router.add(
    "POST",
    PATH,
    Effect.gen(function*() {
      const request = yield* HttpServerRequest.HttpServerRequest
      const body = yield* Effect.provideService(request.text, HttpIncomingMessage.MaxBodySize, MAX_BODY)
      const news = yield* Effect.catchTag(
        configured.value.read({ headers: request.headers, body }),
        "NotAuthentic",
        ({ message }) => Effect.fail(Unauthorized.make(message, { "www-authenticate": CHALLENGE }))
      )
      yield* Effect.forEach(news, (one) =>
        sent(one).pipe(
          turnstile.withPermits(1),
          Effect.catch((error) =>
            Effect.logWarning("what the source host told of could not be looked at", {
              repo: one.repo,
              news: one._tag,
              reason: error.message
            })
          ),
          Effect.forkIn(scope)
        ), { discard: true })
      return HttpServerResponse.empty({ status: 204 })
    })
  )
}))
