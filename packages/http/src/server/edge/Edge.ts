/**
 * The first and the last to see a request: it authenticates everything under `/api/`, and `/metrics`, before anything is
 * routed, turns whatever goes wrong into the one error body, adds the headers that every reply has (docs/decisions/1),
 * and counts it.
 */
import {
  HeadersTooLarge,
  InternalError,
  InvalidRequest,
  MethodNotAllowed,
  NotFound,
  PayloadTooLarge,
  RateLimited,
  Refusal,
  Unavailable
} from "@slipway/api/shared/Errors"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import type { RateSlot } from "@slipway/domain/access/ports/AccessStore"
import { Acting, ActingFrom } from "@slipway/domain/access/ports/AuditLog"
import { actorOf } from "@slipway/domain/access/schema/Principal"
import { Ids } from "@slipway/domain/ids/Ids"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Cause, Clock, Context, Effect, Option, References, Result, type Types } from "effect"
import { HttpBody, HttpEffect, HttpRouter, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiError } from "effect/http-api"
import * as Authenticate from "../access/Authenticate.ts"
import { Connections } from "../connection/Connections.ts"
import { LiveResponses } from "../connection/LiveResponses.ts"
import * as Wire from "../connection/Wire.ts"
import { Previews } from "../preview/Previews.ts"
import * as Encodings from "../reply/Encodings.ts"
import { respond } from "../reply/Respond.ts"
import { type Address, Routes } from "../Routes.ts"
import { basePathOf, Settings } from "../Settings.ts"
import * as AdmissionQueue from "./AdmissionQueue.ts"
import * as BasePath from "./BasePath.ts"
import * as Cors from "./Cors.ts"
import { refusalOf } from "./DecodeFailure.ts"
import * as RequestMetrics from "./RequestMetrics.ts"
import * as RequestSpan from "./RequestSpan.ts"

/** Seconds after which a store that was lost is worth another try. */
const STORE_RETRY_SECONDS = "1"

/**
 * The target without its query, decoded exactly as the router does (a `;` begins the query too), so that the scope is asked for the
 * same address that answers. `null`: it is no path, or its percent-encoding is broken.
 */
const pathOf = (target: string): string | null => {
  const end = target.search(/[?;#]/u)
  const path = end < 0 ? target : target.slice(0, end)
  if (!path.startsWith("/")) return null
  if (!path.includes("%")) return path
  try {
    decodeURIComponent(path)
    return decodeURI(path)
  } catch {
    return null
  }
}

/** RFC 3986, section 3.2.2, with a port: an address in brackets, or a name, without the delimiters that the letter allows in one. */
const HOST = /^(?:\[[\da-f:.]+\]|(?:[\w.~-]|%[\da-f]{2})+)(?::\d{0,5})?$/iu

/**
 * Faults of a request that Node's parser lets pass. A server that reads such a request otherwise than the proxy in front of it can be
 * made to answer another client's request (RFC 9112, sections 3.2, 6.1 and 11.2).
 */
const malformed = (request: HttpServerRequest.HttpServerRequest, wire: Wire.Wire): Refusal | null => {
  const { version } = wire
  if (version === null) return wire.headBytes() > MAX_HEADER_BYTES ? HeadersTooLarge.make("The headers are larger than 16 KiB.") : null
  if (version !== "1.1" && version !== "1.0") return InvalidRequest.make("The HTTP version must be 1.1 or 1.0.")
  const hosts = wire.lines("host")
  const [host] = hosts
  if (host === undefined && version === "1.1") return InvalidRequest.make("The Host header is missing.")
  if (hosts.length > 1) return InvalidRequest.make("Send one Host header.")
  if (host !== undefined && !HOST.test(host)) return InvalidRequest.make("The Host header is no host.")
  const encoding = request.headers["transfer-encoding"]
  if (encoding !== undefined && encoding.toLowerCase() !== "chunked") return InvalidRequest.make("The only transfer encoding is chunked.")
  return null
}

/** The limit of our own server, checked here for requests that a host has read. */
const MAX_HEADER_BYTES = 16 * 1024

/** Nothing of ours has an empty segment, which the router would take for a parameter. */
const hasEmptySegment = (path: string): boolean => path !== "/" && (path.endsWith("/") || path.includes("//"))

const tooManyUnderWay = RateLimited.make("Too many requests from this address are under way.", { "retry-after": "1" })

const shuttingDown = Unavailable.make("The service is shutting down.", { "retry-after": STORE_RETRY_SECONDS })

/** Whether a person looks for a page: programs are told in JSON, and beneath `/api/` everybody is. */
const isForPeople = ({ headers, method }: HttpServerRequest.HttpServerRequest, path: string) =>
  (method === "GET" || method === "HEAD") && !path.startsWith("/api/") && headers["accept"]?.includes("text/html") === true

/** The page for people at an unknown address. */
export type NotFoundPage = (request: HttpServerRequest.HttpServerRequest) => Effect.Effect<HttpServerResponse.HttpServerResponse>

/** `null`: people get the same answer as programs. */
export const NotFoundPage = Context.Reference<NotFoundPage | null>("@slipway/http/NotFoundPage", {
  defaultValue: () => null
})

const unrouted = (
  request: HttpServerRequest.HttpServerRequest,
  path: string | null,
  address: Address | null,
  notFoundPage: NotFoundPage | null
): ReturnType<NotFoundPage> => {
  const { method } = request
  if (path === null) return Effect.succeed(respond(InvalidRequest.make("The address is no path, or its percent-encoding is broken.")))
  if (address === null) {
    return notFoundPage !== null && isForPeople(request, path)
      ? notFoundPage(request)
      : Effect.succeed(respond(NotFound.make("There is nothing at this address.")))
  }
  const allow = address.methods.join(", ")
  return Effect.succeed(
    method === "OPTIONS"
      ? HttpServerResponse.empty({ status: 204, headers: { allow } })
      : respond(MethodNotAllowed.make(`This address answers to ${allow}.`, { allow }))
  )
}

/** A failure as a reply. An unexpected one is logged, and its reply says nothing of it. */
const answer = (cause: Cause.Cause<unknown>, unrouted: () => ReturnType<NotFoundPage>) => {
  // The client left, and needs no answer.
  if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause as Cause.Cause<Types.unhandled>)
  const error = Cause.squash(cause)
  if (error instanceof Refusal) return Effect.succeed(respond(error))
  if (HttpApiError.HttpApiSchemaError.is(error)) {
    const refusal = refusalOf(error)
    if (refusal !== null) return Effect.succeed(respond(refusal))
  }
  if (HttpServerError.isHttpServerError(error)) {
    const { reason } = error
    if (reason._tag === "RouteNotFound") return unrouted()
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
      Effect.logWarning(error.detail === undefined ? "the store is not available" : "files of a sandbox are not available", cause),
      respond(Unavailable.make(error.message, { "retry-after": STORE_RETRY_SECONDS }))
    )
  }
  return Effect.as(Effect.logError("a request failed", cause), respond(InternalError.make("Something went wrong on our side.")))
}

/** A page as it is at an address with a path: what it names from the root of the service lies beneath that. */
const beneath = (base: string, response: HttpServerResponse.HttpServerResponse): HttpServerResponse.HttpServerResponse => {
  const { body } = response
  if (base === "" || body._tag !== "Uint8Array" || body.text === undefined || !body.contentType.startsWith("text/html")) return response
  return HttpServerResponse.setBody(response, HttpBody.text(BasePath.page(base, body.text), body.contentType))
}

const finish = (response: HttpServerResponse.HttpServerResponse, about: {
  readonly requestId: string
  readonly rate: RateSlot | null
  readonly requestsPerMinute: number
  readonly closing: boolean
  readonly base: string
  readonly cors: Readonly<Record<string, string>>
  readonly challenge: string | null
}) => {
  const headers: Record<string, string> = {
    ...about.cors,
    "cache-control": response.headers["cache-control"] ?? "no-store",
    "x-content-type-options": "nosniff",
    "x-request-id": about.requestId
  }
  if (response.headers["content-type"] === "application/json") headers["content-type"] = "application/json; charset=utf-8"
  if (response.status === 503 && response.headers["retry-after"] === undefined) headers["retry-after"] = STORE_RETRY_SECONDS
  const challenge = response.headers["www-authenticate"]
  if (about.challenge !== null && response.status === 401 && challenge !== undefined) {
    headers["www-authenticate"] = `${challenge}, ${about.challenge}`
  }
  // Our own pages name each other from the root of the service.
  const location = response.headers["location"]
  if (about.base !== "" && location?.startsWith("/") === true) headers["location"] = about.base + location
  // Otherwise a busy connection would outlive the server's patience and be cut between two requests.
  if (about.closing) headers["connection"] = "close"
  if (about.rate !== null) {
    headers["ratelimit-policy"] = `"default";q=${about.requestsPerMinute};w=60`
    headers["ratelimit"] = `"default";r=${about.rate.remaining};t=${about.rate.resetSeconds}`
  }
  return HttpServerResponse.setHeaders(beneath(about.base, response), headers)
}

/** `target` within the service: without the path in front of it, which a proxy or a framework may leave there. */
const withinBase = (target: string, base: string): string => {
  if (base === "" || !target.startsWith(base)) return target
  const rest = target.slice(base.length)
  return rest.startsWith("/") ? rest : rest === "" || rest.startsWith("?") ? `/${rest}` : target
}

/** Everything that requests are answered with. Made once. */
const make = Effect.gen(function*() {
  const ids = yield* Ids
  const live = yield* LiveResponses
  const connections = yield* Connections
  const notFoundPage = yield* NotFoundPage
  const routes = yield* Routes
  const settings = yield* Settings
  const { allowedOrigins, publicUrl, requestsPerMinute } = settings
  const cors = Cors.make(allowedOrigins)
  const base = basePathOf(publicUrl)
  const prefix = settings.prefix ?? base
  const authenticate = yield* Authenticate.make
  const count = yield* RequestMetrics.make
  const spanOf = yield* RequestSpan.make
  const isCollected = yield* RootSpan.Collected
  const clock = yield* Clock.Clock
  const queue = AdmissionQueue.make()
  const previews = yield* Previews
  return {
    previews,
    ids,
    live,
    connections,
    notFoundPage,
    routes,
    requestsPerMinute,
    cors,
    base,
    prefix,
    authenticate,
    count,
    spanOf,
    isCollected,
    clock,
    queue
  }
})

/** Gives handlers the request as it is within the service, and its origin to logs and the audit log. */
const within = (
  request: HttpServerRequest.HttpServerRequest,
  origin: { readonly requestId: string; readonly address: string },
  whole: HttpEffect.PreResponseHandler
) =>
(context: Context.Context<never>) => {
  HttpEffect.appendPreResponseHandlerUnsafe(context, whole)
  return context.pipe(
    Context.add(HttpServerRequest.HttpServerRequest, request),
    Context.add(References.CurrentLogAnnotations, { ...Context.get(context, References.CurrentLogAnnotations), ...origin }),
    Context.add(ActingFrom, origin)
  )
}

export const layer = HttpRouter.middleware<{ provides: CurrentPrincipal }>()(
  Effect.map(make, (edge) => {
    const { authenticate, base, clock, connections, cors, isCollected, live, notFoundPage, queue, routes } = edge
    const { count, ids, prefix, previews, requestsPerMinute, spanOf } = edge
    return (route) => {
      const answerTo = (received: HttpServerRequest.HttpServerRequest, requestId: string) => {
        const begunAt = clock.currentTimeNanosUnsafe()
        const wire = Wire.of(received)
        const address = connections.clientOf(received.headers, wire)
        const request = received.modify({ url: withinBase(wire.mount + received.url, prefix), remoteAddress: Option.some(address) })
        const path = pathOf(request.url)
        const place = path === null ? null : routes.at(path)
        const nothingHere = () => unrouted(request, path, place, notFoundPage)

        const finished = (response: HttpServerResponse.HttpServerResponse, rate: RateSlot | null) => {
          count({
            method: request.method,
            area: place?.area ?? "other",
            status: response.status,
            seconds: Number(clock.currentTimeNanosUnsafe() - begunAt) / 1e9
          })
          const closing = wire.version !== null && live.isShuttingDown()
          const forPages = cors.headers(request, path, response.headers)
          const challenge = place?.challenge ?? null
          return finish(response, { requestId, rate, requestsPerMinute, closing, base, cors: forPages, challenge })
        }
        const traced = spanOf(request, place?.pattern ?? null)
        // Nothing is asked for it, so nothing needs to know by which request. Floods of these must cost little.
        const atOnce = (answer: HttpServerResponse.HttpServerResponse) => {
          const response = finished(answer, null)
          return isCollected ? traced(Effect.succeed(response)) : Effect.succeed(response)
        }
        const refused = (refusal: Refusal) => atOnce(respond(refusal))

        const fault = malformed(request, wire)
        if (fault !== null) {
          // The end of such a request is unknown.
          wire.closeAfter()
          return refused(fault)
        }
        if (!connections.enter(address, wire)) return refused(tooManyUnderWay)
        // Nothing else answers on a preview's origin, and a preview adds no header of ours to what a box says.
        // The host may also be in the target of the request.
        if (wire.version !== null && [received.headers["host"], ...wire.lines("host")].some(previews.isFor)) {
          const answered = Effect.provideService(previews.answer(received), ActingFrom, { requestId, address })
          return Effect.catchCause(answered, (cause) => answer(cause, nothingHere))
        }
        // A browser asks without the key whether a page may send one.
        const preflight = cors.preflight(request, path, place)
        if (preflight !== null) return atOnce(preflight)
        // Beneath `/api/` an address that cannot be read is guarded like all that are not there.
        const scope = place === null ? routes.scopeAt(path ?? request.url) : place.scope
        const asked = scope === null ? null : authenticate(request, wire, address, scope)
        if (asked instanceof Refusal) return refused(asked)

        let rate: RateSlot | null = null
        const routed = path === null || hasEmptySegment(path) ? Effect.suspend(nothingHere) : route
        const admitted = (caller: Authenticate.Caller): Effect.Effect<
          HttpServerResponse.HttpServerResponse,
          Types.unhandled,
          Exclude<Effect.Services<typeof route>, CurrentPrincipal>
        > => {
          rate = caller.rate
          if (Result.isFailure(caller.principal)) return Effect.succeed(respond(caller.principal.failure))
          // The router would take a HEAD for a GET.
          if (request.method === "HEAD" && place?.methods.includes("HEAD") === false) return nothingHere()
          const principal = caller.principal.success
          return Effect.updateContext(
            routed,
            (context) => Context.add(Context.add(context, CurrentPrincipal, principal), Acting, actorOf(principal))
          )
        }
        // Where no scope is needed nothing asks for a principal, and the router finds nothing for a path that cannot be decoded.
        const entered = asked === null ? routed as ReturnType<typeof admitted> : Effect.flatMap(asked, admitted)
        // A hundred commands at once would keep what else this process does waiting until all of them have begun.
        const queued = request.method === "POST" ? Effect.andThen(queue, entered) : entered
        // A request that is interrupted, as a shutdown does in the end, is answered by Effect: without a body.
        const whole: HttpEffect.PreResponseHandler = (_, response) =>
          Effect.sync(() => response.status === 503 && response.body._tag === "Empty" ? finished(respond(shuttingDown), rate) : response)
        return Effect.catchCause(queued, (cause) => answer(cause, nothingHere)).pipe(
          Effect.updateContext(within(request, { requestId, address }, whole)),
          traced,
          Effect.flatMap((response) => Encodings.pack(finished(response, rate), request.headers["accept-encoding"]))
        )
      }
      return Effect.flatMap(
        ids.ulid,
        (ulid) => Effect.flatMap(HttpServerRequest.HttpServerRequest, (received) => answerTo(received, `req_${ulid}`))
      )
    }
  }),
  { global: true }
)
