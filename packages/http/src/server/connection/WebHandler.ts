/** The service as a function of web requests. */
import { type Context, Effect, type Scope } from "effect"
import { HttpEffect, HttpServerRequest, type HttpServerResponse } from "effect/http"
import type * as Wire from "./Wire.ts"

/** Answers a request that came over this wire. Never rejects. Aborting the request's signal ends what is under way. */
export type WebHandler = (request: Request, wire: Wire.WebWire) => Promise<Response>

export const make = <E>(
  app: Effect.Effect<HttpServerResponse.HttpServerResponse, E, HttpServerRequest.HttpServerRequest | Scope.Scope>
): Effect.Effect<WebHandler> =>
  Effect.map(Effect.context<never>(), (context: Context.Context<never>) => {
    const streams = new WeakSet<object>()
    const answer = HttpEffect.toWebHandlerWith<never, HttpServerRequest.HttpServerRequest | Scope.Scope>(context)(
      Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
        Effect.tap(app, ({ body }) =>
          Effect.sync(() => {
            if (body._tag === "Stream") streams.add(request.source)
          })))
    )
    return async (request, wire) => {
      const response = await answer(request)
      if (response.body !== null && streams.has(request)) return new Response(wire.watched(response.body), response)
      wire.closed()
      return response
    }
  })
