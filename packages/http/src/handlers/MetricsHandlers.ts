/** Tells Prometheus what this process counted, and what of the store is live (docs/decisions/8). */
import { Api } from "@slipway/api/Api"
import { observed } from "@slipway/domain/observability/Metrics"
import { Maintenance, type Census } from "@slipway/domain/sandbox/ports/Maintenance"
import { Clock, Effect, Exit, Metric } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { PrometheusMetrics } from "effect/observability"
import { LiveResponses } from "../server/connection/LiveResponses.ts"
import * as ProcessMetrics from "./ProcessMetrics.ts"

/** However many scrape and however often, the store counts this often. */
const KEPT = "5 seconds"

const sandboxes = (status: keyof Census["live"]) =>
  Metric.gauge("slipway_sandboxes", {
    description: "Live sandboxes of all grants, by status. Every http process says the same.",
    attributes: { status }
  })
const byStatus = {
  queued: sandboxes("queued"),
  creating: sandboxes("creating"),
  running: sandboxes("running"),
  terminating: sandboxes("terminating")
}
const leased = Metric.gauge("slipway_sandboxes_leased", { description: "Live sandboxes that some worker works for." })
const queueAge = Metric.gauge("slipway_queue_age_seconds", {
  description: "How long the longest waiting queued sandbox has waited; 0 when none is queued."
})
const resting = Metric.gauge("slipway_sandboxes_resting", { description: "Running sandboxes that need no worker and that none holds." })
const boots = Metric.gauge("slipway_boots_waiting", { description: "Queued sandboxes that no worker has taken yet." })
const asking = Metric.gauge("slipway_sandboxes_awaiting_approval", { description: "Sandboxes in which a tool call waits for a person." })
const waiting = Metric.gauge("slipway_approvals_pending", { description: "Tool calls that wait for a person." })

const tell = Effect.fnUntraced(function*(census: Census) {
  const { awaitingApproval, bootsWaiting, live, leased: held, oldestQueuedAt, pendingApprovals } = census
  const now = yield* Clock.currentTimeMillis
  yield* Metric.update(byStatus.queued, live.queued)
  yield* Metric.update(byStatus.creating, live.creating)
  yield* Metric.update(byStatus.running, live.running)
  yield* Metric.update(byStatus.terminating, live.terminating)
  yield* Metric.update(leased, held)
  yield* Metric.update(queueAge, oldestQueuedAt === null ? 0 : Math.max(0, now - oldestQueuedAt.epochMilliseconds) / 1000)
  yield* Metric.update(resting, census.resting)
  yield* Metric.update(boots, bootsWaiting)
  yield* Metric.update(asking, awaitingApproval)
  yield* Metric.update(waiting, pendingApprovals)
})

export const layer = HttpApiBuilder.group(
  Api,
  "metrics",
  Effect.fn(function*(handlers) {
    const maintenance = yield* Maintenance
    const responses = yield* LiveResponses
    const lookAtProcess = yield* ProcessMetrics.make
    const census = yield* Effect.cachedWithTTL(maintenance.census, (exit) => Exit.isSuccess(exit) ? KEPT : 0)
    for (const kind of ["stream", "download", "terminal"] as const) {
      const open = Metric.gauge("slipway_http_open_responses", {
        description: "Event streams, downloads and attachments to terminals that are open.",
        attributes: { kind }
      })
      yield* observed(open, () => ({ value: responses.count(kind) }))
    }

    return handlers.handleAll({
      getMetrics: Effect.fnUntraced(function*() {
        yield* tell(yield* census)
        yield* lookAtProcess
        return yield* PrometheusMetrics.format()
      })
    })
  })
)
