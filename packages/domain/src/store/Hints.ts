/**
 * Port: "look again". Between processes a hint carries a topic, never data, and it goes out after the commit it speaks of. Losing
 * one costs at most a second: every layer also looks by itself. Checked by `HintsContract`.
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
  /**
   * Tells every watcher of these topics, in all processes. Never fails: a hint may be lost. `note`: what listeners of this process
   * are spared to look up; they may not count on one.
   */
  publish(topics: ReadonlyArray<Topic>, note?: unknown): Effect.Effect<void>
  /** From now on until the scope closes. The inner effect waits for the first hint since it last completed: none in between is missed. */
  watch(topic: Topic): Effect.Effect<Effect.Effect<void>, never, Scope.Scope>
  /** Calls this for every hint, in the midst of whatever publishes it, until the scope closes: it must neither take long nor throw. */
  listen(topic: Topic, listener: Listener): Effect.Effect<void, never, Scope.Scope>
}>()("@slipway/domain/Hints") {
}

/** `note`: of a hint of this process that has one; `undefined` of all others. */
export type Listener = (note: unknown) => void

/** `Hints` of one process, with what an adapter needs to feed it. */
export interface LocalHints extends Context.Service.Shape<typeof Hints> {
  /** Topics somebody watches now. */
  topics(): Iterable<Topic>
}

/** The watchers of one process. Adapters feed it with what other processes tell. */
export const makeLocal = (): LocalHints => {
  const listeners = new Map<Topic, Set<Listener>>()
  const listen = (topic: Topic, listener: Listener) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        // Two watchers may give the same one.
        const own: Listener = (note) => listener(note)
        const known = listeners.get(topic)
        if (known === undefined) listeners.set(topic, new Set([own]))
        else known.add(own)
        return own
      }),
      (own) =>
        Effect.sync(() => {
          const known = listeners.get(topic)
          known?.delete(own)
          if (known?.size === 0) listeners.delete(topic)
        })
    ).pipe(Effect.asVoid)
  return {
    topics: () => listeners.keys(),
    publish: (topics, note) =>
      Effect.sync(() => {
        for (const topic of topics) listeners.get(topic)?.forEach((listener) => listener(note))
      }),
    listen,
    watch: (topic) =>
      Effect.suspend(() => {
        const latch = Latch.makeUnsafe(false)
        return Effect.as(listen(topic, () => latch.openUnsafe()), Effect.andThen(latch.await, latch.close))
      })
  }
}
