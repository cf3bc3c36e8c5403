/** Counts and times what is answered, by labels that have few values. On the way of every request: it must cost little. */
import { Effect, Metric } from "effect"

/** Parts of the service. `other`: an address where nothing is. */
export const AREAS = [
  "sandboxes",
  "messages",
  "events",
  "stream",
  "approvals",
  "files",
  "pull_requests",
  "feed",
  "internal",
  "metrics",
  "health",
  "docs",
  "hooks",
  "pages",
  "other"
] as const
export type Area = typeof AREAS[number]

const API = "/api/public/v1/"

const ofSandbox = new Map<string, Area>([
  ["messages", "messages"],
  ["events", "events"],
  ["approvals", "approvals"],
  ["files", "files"],
  ["pull-request", "pull_requests"],
  ["terminate", "sandboxes"],
  ["interrupt", "sandboxes"]
])
const ofFirst = new Map<string, Area>([
  ["metrics", "metrics"],
  ["healthz", "health"],
  ["readyz", "health"],
  ["docs", "docs"],
  ["openapi.json", "docs"],
  ["hooks", "hooks"],
  ["assets", "pages"],
  ["grant", "pages"],
  ["keys", "pages"],
  ["sandboxes", "pages"],
  ["sign-in", "pages"],
  ["sign-out", "pages"],
  ["webhooks", "pages"]
])

const inApi = (path: string): Area => {
  const [collection = "", id, part, detail] = path.slice(API.length).split("/", 4)
  if (collection === "events") return "feed"
  if (collection !== "sandboxes") return "other"
  if (id === undefined || part === undefined) return "sandboxes"
  return part === "events" && detail === "stream" ? "stream" : ofSandbox.get(part) ?? "other"
}

/** What the address is a part of; what it names there is not looked at. `null`: it cannot be read. */
export const areaOf = (path: string | null): Area => {
  if (path === null) return "other"
  if (path.startsWith(API)) return inApi(path)
  if (path.startsWith("/api/internal/v1/")) return "internal"
  return path === "/" ? "pages" : ofFirst.get(path.split("/", 2)[1] ?? "") ?? "other"
}

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

export interface Answered {
  readonly method: string
  readonly path: string | null
  readonly status: number
  readonly seconds: number
}

/** Makes what counts one answer. */
export const make = Effect.gen(function*() {
  const context = yield* Effect.context<never>()
  yield* Effect.forEach(refusals.values(), (counter) => Metric.value(counter), { discard: true })
  return ({ method, path, seconds, status }: Answered): void => {
    const area = areas.get(areaOf(path))
    const byClass = area?.requests.get(method) ?? area?.otherMethod
    byClass?.[Math.floor(status / 100) - 1]?.updateUnsafe(1, context)
    area?.seconds.updateUnsafe(seconds, context)
    refusals.get(status)?.updateUnsafe(1, context)
  }
})
