/** The real worker in a simulation, with rounds that come by within its minutes, and deliveries of webhooks. */
import { AutomationStore } from "@slipway/domain/automation/ports/AutomationStore"
import { Automations } from "@slipway/domain/automation/usecases/Automations"
import { FeedbackWatches } from "@slipway/domain/publishing/ports/FeedbackWatches"
import { Feedback } from "@slipway/domain/publishing/usecases/Feedback"
import type { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import * as StoreClock from "@slipway/domain/sandbox/usecases/StoreClock"
import type { Options } from "@slipway/testing/simulation/Simulation"
import * as DeliverWebhooks from "@slipway/worker/jobs/DeliverWebhooks"
import * as FollowFeedback from "@slipway/worker/jobs/FollowFeedback"
import * as RunAutomations from "@slipway/worker/jobs/RunAutomations"
import { Timing, type Timings } from "@slipway/worker/shared/Timing"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import { Duration, Effect, Layer, Option } from "effect"

/** It looks less often than it does in a service, which takes a quarter off a simulation. */
const delivering = Effect.updateService(DeliverWebhooks.start(), Timing, (timings) => ({ ...timings, tick: Duration.seconds(3) }))

/** Only in seeds that have automations. */
const automating = Effect.gen(function*() {
  const store = yield* Effect.serviceOption(AutomationStore)
  if (Option.isNone(store)) return
  const useCases = Automations.layer.pipe(Layer.provide(Sandboxes.layer))
  const context = yield* Layer.build(useCases).pipe(Effect.provideService(AutomationStore, store.value))
  yield* RunAutomations.start().pipe(Effect.provide(context), Effect.provideService(AutomationStore, store.value))
})

/** Only in seeds that have feedback. */
const following = Effect.gen(function*() {
  const watches = yield* Effect.serviceOption(FeedbackWatches)
  if (Option.isNone(watches)) return
  yield* Layer.build(FollowFeedback.layer.pipe(Layer.provide(Feedback.layer)) as Layer.Layer<never>)
})

export const workerWith = (
  more: Partial<Timings> = {},
  clock: Layer.Layer<never, never, Maintenance> = StoreClock.layer
): Options["worker"] =>
({ agentIdle, ...options }) =>
  Effect.andThen(
    Effect.andThen(Effect.andThen(delivering, automating), following),
    WorkerNode.start({ ...options, agents: 2 * options.slots, boots: options.slots })
  )
    .pipe(
      Effect.updateService(
        Timing,
        (timings) => ({ ...timings, reap: Duration.seconds(10), purge: Duration.seconds(10), agentIdle, ...more })
      ),
      (worker) => Effect.flatMap(Layer.build(clock), (context) => Effect.provide(worker, context))
    )

/** The simulated part: the worker as services run it. */
export const simulated: Pick<Options, "worker" | "webhooks" | "automations" | "feedback"> = {
  worker: workerWith(),
  webhooks: true,
  automations: true,
  feedback: true
}
