/** The real worker in a simulation, with rounds that come by within its minutes, and deliveries of webhooks. */
import type { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import * as StoreClock from "@slipway/domain/sandbox/usecases/StoreClock"
import type { Options } from "@slipway/testing/simulation/Simulation"
import * as DeliverWebhooks from "@slipway/worker/jobs/DeliverWebhooks"
import { Timing, type Timings } from "@slipway/worker/shared/Timing"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import { Duration, Effect, Layer } from "effect"

/** It looks less often than it does in a service, which takes a quarter off a simulation. */
const delivering = Effect.updateService(DeliverWebhooks.start(), Timing, (timings) => ({ ...timings, tick: Duration.seconds(3) }))

export const workerWith = (
  more: Partial<Timings> = {},
  clock: Layer.Layer<never, never, Maintenance> = StoreClock.layer
): Options["worker"] =>
({ agentIdle, ...options }) =>
  Effect.andThen(delivering, WorkerNode.start({ ...options, agents: 2 * options.slots, boots: options.slots })).pipe(
    Effect.updateService(
      Timing,
      (timings) => ({ ...timings, reap: Duration.seconds(10), purge: Duration.seconds(10), agentIdle, ...more })
    ),
    (worker) => Effect.flatMap(Layer.build(clock), (context) => Effect.provide(worker, context))
  )

/** The simulated part: the worker as services run it. */
export const simulated: Pick<Options, "worker" | "webhooks"> = { worker: workerWith(), webhooks: true }
