/** Readings of slow places for pages: callers that need the same at the same time share one, and each is kept for a while. */
import { LruCache } from "@slipway/domain/store/LruCache"
import { Clock, Deferred, Effect, type Scope } from "effect"

interface Reading<A> {
  readonly version: string
  readonly found: A
  readonly atMillis: number
}

interface Wanted<A, E> {
  /** The name by which the last reading is kept. */
  readonly key: string
  /** The state that the caller knows of. A reading under way is shared by callers that know of the same. */
  readonly state: string
  /** Whether the last reading need not be repeated. */
  readonly isFresh: (last: Reading<A>, ageMillis: number) => boolean
  /** The version of what was found; `null`: it is not kept. */
  readonly versionOf: (found: A) => string | null
  readonly find: Effect.Effect<A, E>
}

/** Keeps the readings that were used last, up to `most` in size. Readings go on in `scope` when their first caller has left. */
export const make = <A, E = never>(most: number, sizeOf: (found: A) => number, scope: Scope.Scope) => {
  const known = new LruCache<string, Reading<A>>(most, ({ found }) => sizeOf(found))
  const underWay = new Map<string, Deferred.Deferred<A, E>>()

  const read = Effect.fnUntraced(function*({ find, isFresh, key, state, versionOf }: Wanted<A, E>) {
    const last = known.get(key)
    const atMillis = yield* Clock.currentTimeMillis
    if (last !== undefined && isFresh(last, atMillis - last.atMillis)) return last.found
    const name = `${key} ${state}`
    const others = underWay.get(name)
    if (others !== undefined) return yield* Deferred.await(others)
    const reading = yield* Deferred.make<A, E>()
    underWay.set(name, reading)
    yield* find.pipe(
      Effect.tap((found) =>
        Effect.sync(() => {
          const version = versionOf(found)
          if (version !== null) known.set(key, { version, found, atMillis })
        })
      ),
      Effect.onExit((exit) => {
        underWay.delete(name)
        return Deferred.done(reading, exit)
      }),
      Effect.forkIn(scope)
    )
    return yield* Deferred.await(reading)
  })

  return { read, last: (key: string): Reading<A> | null => known.get(key) ?? null }
}
