/** Counts and times what is answered, by labels that have few values. On the way of every request: it must cost little. */
import { type AreaName, AREAS } from "@slipway/api/shared/Routing"
import { Effect, Metric } from "effect"

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
const CLASSES = ["1xx", "2xx", "3xx", "4xx", "5xx"]

/** Each series is made once: to make one, or the set of its labels, takes as long as much of a request. */
const areas = new Map(AREAS.map((area) => {
  const counter = (method: string, status: string) =>
    Metric.counter("slipway_http_requests_total", {
      description: "Requests that were answered.",
      incremental: true,
      attributes: { area, method, status }
    })
  const ofMethod = (method: string) => CLASSES.map((status) => counter(method, status))
  return [area, {
    requests: new Map(METHODS.map((method) => [method, ofMethod(method)])),
    otherMethod: ofMethod("other"),
    seconds: Metric.histogram("slipway_http_request_duration_seconds", {
      description: "From a request's headers to the beginning of its answer.",
      attributes: { area },
      boundaries: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20]
    })
  }]
}))

/** Refused for who asks, or for how often. */
const refusals = new Map([401, 403, 429].map((status) => [
  status,
  Metric.counter("slipway_http_refusals_total", {
    description: "Answers 401, 403 and 429.",
    incremental: true,
    attributes: { code: String(status) }
  })
]))

interface Answered {
  readonly method: string
  readonly area: AreaName
  readonly status: number
  readonly seconds: number
}

/** Makes what counts one answer. */
export const make = Effect.gen(function*() {
  const context = yield* Effect.context<never>()
  yield* Effect.forEach(refusals.values(), (counter) => Metric.value(counter), { discard: true })
  return ({ area: name, method, seconds, status }: Answered): void => {
    const area = areas.get(name)
    const byClass = area?.requests.get(method) ?? area?.otherMethod
    byClass?.[Math.floor(status / 100) - 1]?.updateUnsafe(1, context)
    area?.seconds.updateUnsafe(seconds, context)
    refusals.get(status)?.updateUnsafe(1, context)
  }
})
