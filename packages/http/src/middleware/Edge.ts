/**
 * The first and the last to see a request: it authenticates everything under `/api/`, and `/metrics`, before anything is
 * routed, turns whatever goes wrong into the one error body, adds the headers that every reply has (decisions, section 1),
 * and counts it.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Cause, Clock, Context, Effect, Option, type Types } from "effect"
import { HttpRouter, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiError } from "effect/http-api"
import type { RateSlot } from "@slipway/domain/access/AccessStore"
import { Acting, ActingFrom } from "@slipway/domain/access/AuditLog"
import { actorOf } from "@slipway/domain/access/Principal"
import { Ids } from "@slipway/domain/Ids"
import { StoreUnavailable } from "@slipway/domain/sandbox/SandboxStore"
import {
  InternalError,
  InvalidRequest,
  MethodNotAllowed,
  NotFound,
  PayloadTooLarge,
  Refusal,
  Unavailable
} from "../api/Errors.ts"
import { CurrentPrincipal } from "../api/Middleware.ts"
import * as Authenticate from "./Authenticate.ts"
import { refusalOf } from "./DecodeFailure.ts"
import { LiveResponses } from "./LiveResponses.ts"
import * as RequestMetrics from "./RequestMetrics.ts"
import * as RequestSpan from "./RequestSpan.ts"
import { respond } from "./Respond.ts"
import { methodsAt } from "./Routes.ts"
import { Settings } from "./Settings.ts"

/** Seconds after which a store that was lost is worth another try. */
const STORE_RETRY_SECONDS = "1"

/**
 * The target without its query, decoded, as the router has it: a `;` begins the query too. Whoever reads it otherwise asks
 * for the scope of another address than the one that answers. `null`: it is no path, or its percent-encoding is broken.
 */
const pathOf = (target: string): string | null => {
  const path = target.replace(/[?;#].*$/su, "")
  if (!path.startsWith("/")) return null
  if (!path.includes("%")) return path
  try {
    decodeURIComponent(path)
    return decodeURI(path)
  } catch {
    return null
  }
}

/** RFC 9112, section 3.2: such a request must be refused. Node would, with an empty body. */
const isWithoutHost = (request: HttpServerRequest.HttpServerRequest): boolean =>
  request.headers["host"] === undefined && NodeHttpServerRequest.toIncomingMessage(request).httpVersion === "1.1"

const noHost = Effect.succeed(respond(InvalidRequest.make("The Host header is missing.")))

const unrouted = (method: string, path: string | null) => {
  if (path === null) return respond(InvalidRequest.make("The address is no path, or its percent-encoding is broken."))
  const methods = methodsAt(path)
  if (methods === null) return respond(NotFound.make("There is nothing at this address."))
  const allow = methods.join(", ")
  return method === "OPTIONS"
    ? HttpServerResponse.empty({ status: 204, headers: { allow } })
    : respond(MethodNotAllowed.make(`This address answers to ${allow}.`, { allow }))
}

/** Everything that is not an answer, as one. Whatever nobody foresaw is logged and tells nothing. */
const answer = (cause: Cause.Cause<unknown>, method: string, path: string | null) => {
  // The client left: there is nobody to answer.
  if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause as Cause.Cause<Types.unhandled>)
  const error = Cause.squash(cause)
  if (error instanceof Refusal) return Effect.succeed(respond(error))
  if (HttpApiError.HttpApiSchemaError.is(error)) {
    const refusal = refusalOf(error)
    if (refusal !== null) return Effect.succeed(respond(refusal))
  }
  if (HttpServerError.isHttpServerError(error)) {
    const { reason } = error
    if (reason._tag === "RouteNotFound") return Effect.succeed(unrouted(method, path))
    if (reason._tag === "RequestParseError") {
      return Effect.succeed(respond(
        reason.reason === "BodyTooLarge"
          ? PayloadTooLarge.make("The body is larger than 1 MiB.")
          : InvalidRequest.make("The body could not be read.")
      ))
    }
  }
  if (error instanceof StoreUnavailable) {
    return Effect.as(
      Effect.logWarning("the store is not available", cause),
      respond(Unavailable.make(error.message, { "retry-after": STORE_RETRY_SECONDS }))
    )
  }
  return Effect.as(Effect.logError("a request failed", cause), respond(InternalError.make("Something went wrong on our side.")))
}

const finish = (response: HttpServerResponse.HttpServerResponse, about: {
  readonly requestId: string
  readonly rate: RateSlot | null
  readonly requestsPerMinute: number
  readonly closing: boolean
}) => {
  const headers: Record<string, string> = {
    "cache-control": response.headers["cache-control"] ?? "no-store",
    "x-content-type-options": "nosniff",
    "x-request-id": about.requestId
  }
  if (response.headers["content-type"] === "application/json") headers["content-type"] = "application/json; charset=utf-8"
  if (response.status === 503 && response.headers["retry-after"] === undefined) headers["retry-after"] = STORE_RETRY_SECONDS
  // Otherwise a busy connection would outlive the server's patience and be cut between two requests.
  if (about.closing) headers["connection"] = "close"
  if (about.rate !== null) {
    headers["ratelimit-policy"] = `"default";q=${about.requestsPerMinute};w=60`
    headers["ratelimit"] = `"default";r=${about.rate.remaining};t=${about.rate.resetSeconds}`
  }
  return HttpServerResponse.setHeaders(response, headers)
}

export const layer = HttpRouter.middleware<{ provides: CurrentPrincipal }>()(
  Effect.gen(function*() {
    const ids = yield* Ids
    const live = yield* LiveResponses
    const { requestsPerMinute } = yield* Settings
    const authenticate = yield* Authenticate.make
    const count = yield* RequestMetrics.make
    const clock = yield* Clock.Clock

    return (route) =>
      Effect.gen(function*() {
        const begunAt = clock.currentTimeNanosUnsafe()
        const request = yield* HttpServerRequest.HttpServerRequest
        const requestId = `req_${yield* ids.ulid}`
        const path = pathOf(request.url)
        let rate: RateSlot | null = null

        const authenticated = Effect.gen(function*() {
          const caller = yield* authenticate(request, path ?? request.url)
          rate = caller.rate
          const principal = yield* Effect.fromResult(caller.principal)
          const methods = request.method === "HEAD" && path !== null ? methodsAt(path) : null
          // The router would take a HEAD for a GET.
          if (path !== null && methods?.includes("HEAD") === false) return unrouted("HEAD", path)
          return yield* Effect.provideContext(route, Context.make(CurrentPrincipal, principal).pipe(Context.add(Acting, actorOf(principal))))
        })

        // Nothing else asks for a principal, and the router finds nothing for a path that cannot be decoded.
        const guarded = path === Authenticate.METRICS || (path ?? request.url).startsWith("/api/")
        const open = path === null ? Effect.succeed(unrouted(request.method, null)) : route as typeof authenticated
        const response = yield* (isWithoutHost(request) ? noHost : guarded ? authenticated : open).pipe(
          Effect.catchCause((cause) => answer(cause, request.method, path)),
          Effect.annotateLogs({ requestId }),
          Effect.provideService(ActingFrom, { requestId, address: Option.getOrElse(request.remoteAddress, () => "") }),
          RequestSpan.within(request)
        )
        count({ method: request.method, path, status: response.status, seconds: Number(clock.currentTimeNanosUnsafe() - begunAt) / 1e9 })
        return finish(response, { requestId, rate, requestsPerMinute, closing: live.isShuttingDown() })
      })
  }),
  { global: true }
)
