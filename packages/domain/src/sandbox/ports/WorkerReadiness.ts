/** What keeps the worker of this process from taking on sandboxes although it runs. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** Where the worker tells of it, and those who are asked how the process does look. Nothing by default. */
export const WorkerTrouble = Context.Reference<{
  /** A sentence for people; `null`: there is none. Nothing internal, and cheap: anybody may ask, as often as they like. */
  readonly problem: Effect.Effect<string | null>
  /** From now on `problem` says this. */
  report(problem: Effect.Effect<string | null>): Effect.Effect<void>
}>("@slipway/domain/WorkerTrouble", {
  defaultValue: () => ({ problem: Effect.succeed(null), report: () => Effect.void })
})

/** One that those built on it share. */
export const layer: Layer.Layer<never> = Layer.sync(WorkerTrouble, () => {
  let current: Effect.Effect<string | null> = Effect.succeed(null)
  return {
    problem: Effect.suspend(() => current),
    report: (problem) => Effect.sync(() => void (current = problem))
  }
})
