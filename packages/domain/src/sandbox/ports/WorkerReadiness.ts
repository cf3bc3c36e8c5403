/** Why the worker of this process takes no sandboxes although it runs. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** The worker reports it, and health checks read it. By default there is no problem. */
export const WorkerReadiness = Context.Reference<{
  /** A sentence for people without internal details; `null`: no problem. Cheap enough for every request. */
  readonly problem: Effect.Effect<string | null>
  /** Sets the source of `problem`. */
  report(problem: Effect.Effect<string | null>): Effect.Effect<void>
}>("@slipway/domain/WorkerReadiness", {
  defaultValue: () => ({ problem: Effect.succeed(null), report: () => Effect.void })
})

/** One state, shared by everything built on this layer. */
export const layer: Layer.Layer<never> = Layer.sync(WorkerReadiness, () => {
  let current: Effect.Effect<string | null> = Effect.succeed(null)
  return {
    problem: Effect.suspend(() => current),
    report: (problem) => Effect.sync(() => void (current = problem))
  }
})
