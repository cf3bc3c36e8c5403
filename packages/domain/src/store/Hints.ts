/**
 * Port: hints to look for changes. Between processes a hint carries a topic without data, and is sent after the commit. A lost hint
 * costs at most a second, because every reader also polls. Checked by `HintsContract`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"

/** A sandbox's id, or `work`: a sandbox waits for a worker. */
export type Topic = string

/**
 * Hears the hints of every topic. A hint of `*` itself means that any topic may have changed, such as after a lost connection between
 * processes. Not for exact watching: a hint of another process that is lost is not made up for.
 */
export const EVERY: Topic = "*"

/** The topic of every worker. */
export const WORK: Topic = "work"

/** Sends and receives hints. Watchers get a hint at once within the process and within a second across processes. */
export class Hints extends Context.Service<Hints, {
  /**
   * Sends a hint to every watcher of these topics, in all processes. Never fails: a hint may be lost. `note`: data that saves listeners
   * of this process a query. Listeners must work without it.
   */
  publish(topics: ReadonlyArray<Topic>, note?: unknown): Effect.Effect<void>
  /**
   * Watches until the scope closes. The inner effect waits for the first hint since it last completed, so no hint between two waits is
   * missed.
   */
  watch(topic: Topic): Effect.Effect<Effect.Effect<void>, never, Scope.Scope>
  /**
   * Calls the listener for every hint, in the fiber of the publisher, until the scope closes. The listener must be fast and must not
   * throw.
   */
  listen(topic: Topic, listener: Listener): Effect.Effect<void, never, Scope.Scope>
}>()("@slipway/domain/Hints") {
}

/** `note`: the note of a hint of this process; `undefined` for all others. `topic`: that of the hint. */
export type Listener = (note: unknown, topic: Topic) => void

/** `Hints` of one process, with the functions that an adapter needs to feed it. */
export interface LocalHints extends Context.Service.Shape<typeof Hints> {
  /** The topics that are watched now. */
  topics(): Iterable<Topic>
}

/** The watchers of one process. Adapters pass on the hints of other processes. */
export const makeLocal = (): LocalHints => {
  const listeners = new Map<Topic, Set<Listener>>()
  const listen = (topic: Topic, listener: Listener) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        // Two watchers may register the same listener.
        const own: Listener = (note, topic) => listener(note, topic)
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
        for (const topic of topics) listeners.get(topic)?.forEach((listener) => listener(note, topic))
        for (const topic of topics) if (topic !== EVERY) listeners.get(EVERY)?.forEach((listener) => listener(note, topic))
      }),
    listen,
    watch: (topic) =>
      Effect.suspend(() => {
        const latch = Latch.makeUnsafe(false)
        return Effect.as(listen(topic, () => latch.openUnsafe()), Effect.andThen(latch.await, latch.close))
      })
  }
}
