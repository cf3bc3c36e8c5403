/**
 * Monitoring of a process with only a worker: `GET /metrics` for Prometheus, `GET /healthz` and `GET /readyz` for supervisors, without
 * a key. It never uses the database, so that a worker can be monitored while its database is unavailable. Processes that serve HTTP
 * report the counts of the database.
 */
import * as ProcessMetrics from "@slipway/http/handlers/ProcessMetrics"
import { type Endpoint, resolve } from "@slipway/worker-link/PrivateAddress"
import * as PrivateServer from "@slipway/worker-link/PrivateServer"
import * as WorkerHealth from "@slipway/worker-link/WorkerHealth"
import { Effect, Layer } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { PrometheusMetrics } from "effect/observability"

/** Built before the worker and closed after it, because a draining worker may take hours for its last turns. */
export const layer = (listen: Endpoint) =>
  Layer.unwrap(Effect.gen(function*() {
    const served = { what: "metrics", listen, option: "metricsListen" } as const
    const resolved = yield* resolve(served)
    const health = yield* WorkerHealth.answers
    const lookAtProcess = yield* ProcessMetrics.make
    const metrics = Effect.gen(function*() {
      yield* lookAtProcess
      return HttpServerResponse.text(yield* PrometheusMetrics.format(), {
        contentType: "text/plain; version=0.0.4; charset=utf-8",
        headers: { "cache-control": "no-store" }
      })
    })
    const answer = Effect.gen(function*() {
      const { method, url } = yield* HttpServerRequest.HttpServerRequest
      const found = url === "/metrics" ? metrics : health.get(url)
      if (found === undefined) return HttpServerResponse.empty({ status: 404 })
      return method === "GET" ? yield* found : HttpServerResponse.empty({ status: 405, headers: { allow: "GET" } })
    })
    return PrivateServer.layer({ ...served, listen: resolved }, answer)
  }))
