/**
 * Routes a request whose head was checked, turns whatever goes wrong into the one error body, and gives the reply its headers.
 * The head is checked before anything is routed: everything under `/api/`, and `/metrics`, needs a caller.
 */
import {
  InternalError,
  InvalidRequest,
  MethodNotAllowed,
  NotFound,
  PayloadTooLarge,
  Refusal,
  Unavailable
} from "@slipway/api/shared/Errors"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import type { RateSlot } from "@slipway/domain/access/ports/AccessStore"
import { Acting, ActingFrom } from "@slipway/domain/access/ports/AuditLog"
import { actorOf } from "@slipway/domain/access/schema/Principal"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Cause, Context, Effect, Option, References, Result, type Types } from "effect"
import { HttpBody, HttpEffect, HttpRouter, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiError } from "effect/http-api"
import type * as Authenticate from "../access/Authenticate.ts"
import * as Wire from "../connection/Wire.ts"
import { Previews } from "../preview/Previews.ts"
import * as Encodings from "../reply/Encodings.ts"
import { respond } from "../reply/Respond.ts"
import type { Address } from "../Routes.ts"
import { basePathOf, Settings } from "../Settings.ts"
import * as AdmissionQueue from "./AdmissionQueue.ts"
import * as BasePath from "./BasePath.ts"
import { refusalOf } from "./DecodeFailure.ts"
import { HeadCheck, STORE_RETRY_SECONDS } from "./HeadCheck.ts"
import * as RequestSpan from "./RequestSpan.ts"

/** Nothing of ours has an empty segment, which the router would take for a parameter. */
const hasEmptySegment = (path: string): boolean => path !== "/" && (path.endsWith("/") || path.includes("//"))

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

/** Everything that requests are answered with. Made once. */
const make = Effect.gen(function*() {
  return {
    heads: yield* HeadCheck,
    previews: yield* Previews,
    notFoundPage: yield* NotFoundPage,
    base: basePathOf((yield* Settings).publicUrl),
    spanOf: yield* RequestSpan.make,
    isCollected: yield* RootSpan.Collected,
    queue: AdmissionQueue.make()
  }
})

export const layer = HttpRouter.middleware<{ provides: CurrentPrincipal }>()(
  Effect.map(make, ({ base, heads, isCollected, notFoundPage, previews, queue, spanOf }) => (route) => {
    const answerTo = (received: HttpServerRequest.HttpServerRequest) => {
      const checked = heads.check(received, Wire.of(received))
      const { address, clientAddress, outcome, path, requestId, url } = checked
      const request = received.modify({ url, remoteAddress: Option.some(clientAddress) })
      const nothingHere = () => unrouted(request, path, address, notFoundPage)
      const finished = (response: HttpServerResponse.HttpServerResponse, rate: RateSlot | null) =>
        HttpServerResponse.setHeaders(beneath(base, response), checked.finished(response, rate))
      const traced = spanOf(request, address?.pattern ?? null)

      if (outcome._tag === "Answered") {
        const response = finished(outcome.response, null)
        return isCollected ? traced(Effect.succeed(response)) : Effect.succeed(response)
      }
      const origin = { requestId, address: clientAddress }
      if (outcome._tag === "Preview") {
        const answered = Effect.provideService(previews.answer(received), ActingFrom, origin)
        return Effect.catchCause(answered, (cause) => answer(cause, nothingHere))
      }

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
        if (request.method === "HEAD" && address?.methods.includes("HEAD") === false) return nothingHere()
        const principal = caller.principal.success
        return Effect.updateContext(
          routed,
          (context) => Context.add(Context.add(context, CurrentPrincipal, principal), Acting, actorOf(principal))
        )
      }
      const { caller } = outcome
      // Where no scope is needed nothing asks for a principal, and the router finds nothing for a path that cannot be decoded.
      const entered = caller === null ? routed as ReturnType<typeof admitted> : Effect.flatMap(caller, admitted)
      // A hundred commands at once would keep what else this process does waiting until all of them have begun.
      const queued = request.method === "POST" ? Effect.andThen(queue, entered) : entered
      // A request that is interrupted, as a shutdown does in the end, is answered by Effect: without a body.
      const whole: HttpEffect.PreResponseHandler = (_, response) =>
        Effect.sync(() => response.status === 503 && response.body._tag === "Empty" ? finished(respond(shuttingDown), rate) : response)
      return Effect.catchCause(queued, (cause) => answer(cause, nothingHere)).pipe(
        Effect.updateContext(within(request, origin, whole)),
        traced,
        Effect.flatMap((response) => Encodings.pack(finished(response, rate), request.headers["accept-encoding"]))
      )
    }
    return Effect.flatMap(HttpServerRequest.HttpServerRequest, answerTo)
  }),
  { global: true }
)
