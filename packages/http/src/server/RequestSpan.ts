/** The one span of a request. Its trace is the caller's where a well-formed `traceparent` (W3C Trace Context) names one. */
import * as RootSpan from "@slipway/domain/RootSpan"
import { type HttpServerRequest, HttpTraceContext } from "effect/http"

export const within = (request: HttpServerRequest.HttpServerRequest) =>
  RootSpan.within(`HTTP ${request.method}`, HttpTraceContext.w3c(request.headers))
