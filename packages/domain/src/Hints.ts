/**
 * Port: "look again". A hint carries a topic, never data, and goes out after the commit it speaks of. Losing one costs
 * at most a second: every layer also looks by itself. Checked by `testing/HintsContract`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"

/** A sandbox's id, or `work`: some sandbox waits for a worker. */
export type Topic = string

/** The topic of every worker. */
export const WORK: Topic = "work"

/**
 * Hints between everything that waits. A layer's watchers hear a hint at once within the process and within a second
 * across processes.
 */
export class Hints extends Context.Service<Hints, {
  /** Tells every watcher of these topics, in all processes. Never fails: a hint may be lost. */
  publish(topics: ReadonlyArray<Topic>): Effect.Effect<void>
  /** From now on until the scope closes. The inner effect waits for the first hint since it last completed: none in between is missed. */
  watch(topic: Topic): Effect.Effect<Effect.Effect<void>, never, Scope.Scope>
}>()("@slipway/domain/Hints") {
}

/** `Hints` of one process, with what an adapter needs to feed it. */
export interface LocalHints {
  publish(topics: ReadonlyArray<Topic>): Effect.Effect<void>
  watch(topic: Topic): Effect.Effect<Effect.Effect<void>, never, Scope.Scope>
  /** Topics somebody watches now. */
  topics(): Iterable<Topic>
}

/** The watchers of one process. Adapters feed it with what other processes tell. */
export const makeLocal = (): LocalHints => {
  const watchers = new Map<Topic, Set<Latch.Latch>>()
  return {
    topics: () => watchers.keys(),
    publish: (topics) =>
      Effect.sync(() => {
        for (const topic of topics) watchers.get(topic)?.forEach((latch) => latch.openUnsafe())
      }),
    watch: (topic) =>
      Effect.acquireRelease(
        Effect.sync(() => {
          const latch = Latch.makeUnsafe(false)
          const known = watchers.get(topic)
          if (known === undefined) watchers.set(topic, new Set([latch]))
          else known.add(latch)
          return latch
        }),
        (latch) =>
          Effect.sync(() => {
            const known = watchers.get(topic)
            known?.delete(latch)
            if (known?.size === 0) watchers.delete(topic)
          })
      ).pipe(Effect.map((latch) => Effect.andThen(latch.await, latch.close)))
  }
}
