/** The health endpoints of a worker, like those of a process that answers requests: `GET /healthz` and `GET /readyz`. */
import { WorkerReadiness } from "@slipway/domain/sandbox/ports/WorkerReadiness"
import * as Readiness from "@slipway/domain/sandbox/usecases/Readiness"
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { SqlClient } from "effect/sql"

const headers = { "cache-control": "no-store" }
const ok = HttpServerResponse.jsonUnsafe({ status: "ok" }, { headers })
const notReady = (message: string) =>
  HttpServerResponse.jsonUnsafe({ error: { code: "unavailable", message } }, { status: 503, headers: { ...headers, "retry-after": "1" } })

/** By path. They need no proof and reveal no internal details. */
export const answers = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const worker = yield* WorkerReadiness
  const problemWith = yield* Readiness.make
  const ready = Effect.gen(function*() {
    const problem = (yield* problemWith(sql`SELECT 1`)) ?? (yield* worker.problem)
    return problem === null ? ok : notReady(problem)
  })
  return new Map<string, Effect.Effect<HttpServerResponse.HttpServerResponse>>([["/healthz", Effect.succeed(ok)], ["/readyz", ready]])
})
