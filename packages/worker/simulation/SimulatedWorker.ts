/** The real worker in a simulation, with a reaper that comes by within its minutes. */
import * as StoreClock from "@slipway/domain/sandbox/StoreClock"
import type { Upkeep } from "@slipway/domain/sandbox/Upkeep"
import type { Options } from "@slipway/domain/testing/Simulation"
import { Timing, type Timings } from "@slipway/worker/Timing"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import { Duration, Effect, Layer } from "effect"

export const workerWith = (
  more: Partial<Timings> = {},
  clock: Layer.Layer<never, never, Upkeep> = StoreClock.layer
): Options["worker"] =>
({ agentIdle, ...options }) =>
  WorkerNode.start({ ...options, agents: 2 * options.slots, boots: options.slots }).pipe(
    Effect.updateService(Timing, (timings) => ({ ...timings, reap: Duration.seconds(10), agentIdle, ...more })),
    (worker) => Effect.flatMap(Layer.build(clock), (context) => Effect.provide(worker, context))
  )

export const worker = workerWith()
