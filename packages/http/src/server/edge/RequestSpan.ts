/** The one span of a request. Its trace is the caller's where a well-formed `traceparent` (W3C Trace Context) names one. */
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { Effect } from "effect"
import { type HttpServerRequest, type HttpServerResponse, HttpTraceContext } from "effect/http"

const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])

/** Makes what gives a request its span. `route`: the pattern of its address; `null`: there is none. */
export const make = Effect.map(
  RootSpan.Collected,
  (isCollected) =>
  (request: HttpServerRequest.HttpServerRequest, route: string | null) =>
  <E, R>(self: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) => {
    const parent = HttpTraceContext.w3c(request.headers)
    if (!isCollected) return RootSpan.within(`HTTP ${request.method}`, parent)(self)
    const method = METHODS.has(request.method) ? request.method : "_OTHER"
    return Effect.tap(
      self,
      ({ status }) => RootSpan.annotate({ "http.response.status_code": status, ...(status < 500 ? {} : { "error.type": String(status) }) })
    ).pipe(
      RootSpan.traced(route === null ? method : `${method} ${route}`, {
        parent,
        kind: "server",
        attributes: { "http.request.method": method, ...(route === null ? {} : { "http.route": route }) }
      })
    )
  }
)
