/** Memory, processor time and descriptors of the process, under the names that Prometheus' own clients use. */
import { observed } from "@slipway/domain/observability/Metrics"
import { Effect, Metric } from "effect"
import { readdir } from "node:fs/promises"
import { monitorEventLoopDelay } from "node:perf_hooks"
import manifest from "../../package.json" with { type: "json" }
import { descriptorLimit } from "../server/connection/DescriptorLimit.ts"

/** Node measures from one look to the next, and looks this often. */
const RESOLUTION_MILLIS = 20

const gauge = (name: string, description: string) => Metric.gauge(name, { description })

const descriptors = gauge("process_open_fds", "Files and sockets that the process has open.")
const delay = gauge("nodejs_eventloop_lag_p99_seconds", "How long the event loop was held up since the scrape before, 99th percentile.")

/** Files and sockets that are open. `null`: only Linux tells. */
const openDescriptors = Effect.promise(() => readdir("/proc/self/fd").then((found) => found.length, () => null))

/** Makes what is to be run before each reading. Watching the event loop begins with the first one. */
export const make = Effect.gen(function*() {
  const value = (get: () => number) => () => ({ value: get() })
  yield* observed(gauge("process_resident_memory_bytes", "Memory of the process."), value(() => process.memoryUsage.rss()))
  yield* observed(gauge("nodejs_heap_size_used_bytes", "Of V8's heap, what objects take."), value(() => process.memoryUsage().heapUsed))
  yield* observed(gauge("nodejs_heap_size_total_bytes", "V8's heap."), value(() => process.memoryUsage().heapTotal))
  yield* observed(
    gauge("process_start_time_seconds", "When the process began, in seconds since 1970."),
    value(() => performance.timeOrigin / 1000)
  )
  yield* observed(
    Metric.counter("process_cpu_seconds_total", {
      description: "Processor time that the process took, its own and the system's for it.",
      incremental: true
    }),
    () => {
      const { system, user } = process.cpuUsage()
      return { count: (system + user) / 1e6, incremental: true }
    }
  )
  const limit = descriptorLimit()
  if (Number.isFinite(limit)) {
    yield* observed(
      gauge("process_max_fds", "Files and sockets that the process may have open."),
      value(() => limit)
    )
  }
  yield* observed(
    Metric.gauge("slipway_build_info", {
      description: "Always 1: its labels say what runs.",
      attributes: { version: manifest.version, node: process.versions.node }
    }),
    value(() => 1)
  )

  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MILLIS })
  yield* Effect.addFinalizer(() => Effect.sync(() => histogram.disable()))
  return Effect.gen(function*() {
    const open = yield* openDescriptors
    if (open !== null) yield* Metric.update(descriptors, open)
    const isFirst = histogram.enable()
    yield* Metric.update(delay, isFirst ? 0 : Math.max(0, histogram.percentile(99) / 1e9 - RESOLUTION_MILLIS / 1000))
    histogram.reset()
  })
})
