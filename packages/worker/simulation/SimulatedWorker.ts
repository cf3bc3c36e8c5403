/** The real worker in a simulation, with a reaper that comes by within its minutes. */
import { Duration, Effect } from "effect"
import type { Options } from "@slipway/domain/testing/Simulation"
import { Timing, type Timings } from "@slipway/worker/Timing"
import * as WorkerNode from "@slipway/worker/WorkerNode"

export const workerWith = (more: Partial<Timings> = {}): Options["worker"] => (options) =>
  Effect.updateService(WorkerNode.start(options), Timing, (timings) => ({ ...timings, reap: Duration.seconds(10), ...more }))

export const worker = workerWith()
