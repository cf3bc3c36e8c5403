/**
 * `SetupCaches` in memory: for tests and for embedding. Only this adapter holds whole caches in memory. State dies with the layer.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { CacheNotKept, type CachePlace, SetupCaches } from "../../src/environment/ports/SetupCaches.ts"
import * as CacheFilling from "../../src/environment/usecases/CacheFilling.ts"

interface Kept {
  readonly chunks: ReadonlyArray<Uint8Array>
  readonly bytes: number
  readers: number
}

/** Limits of the caches. */
export interface Options {
  /** Bytes of all caches together. Default 256 MiB. */
  readonly maximumBytes?: number
  /** Bytes of one cache. */
  readonly largest?: number
}

/** Process-local, for tests and for embedding. */
export const layer = ({ maximumBytes = 256 * 2 ** 20, ...options }: Options = {}) =>
  Layer.effect(
    SetupCaches,
    Effect.suspend(() => {
      /** Least recently used first. */
      const all = new Map<string, Kept>()
      const removeUnread = (until: () => boolean) =>
        Effect.suspend(() =>
          Effect.forEach(Array.from(all), ([name, { readers }]) => {
            if (readers > 0 || until()) return Effect.void
            all.delete(name)
            return CacheFilling.count("removal")
          }, { discard: true })
        )
      const total = () => Array.from(all.values()).reduce((sum, { bytes }) => sum + bytes, 0)

      return CacheFilling.make({
        open: (place: CachePlace) =>
          Effect.gen(function*() {
            const name = CacheFilling.nameOf(place)
            const found = all.get(name)
            if (found === undefined) return Option.none()
            all.delete(name)
            all.set(name, found)
            yield* Effect.acquireRelease(Effect.sync(() => found.readers++), () => Effect.sync(() => found.readers--))
            return Option.some({ bytes: Stream.map(Stream.fromIterable(found.chunks), (chunk) => chunk.slice()), image: null })
          }),
        write: Effect.fnUntraced(function*(place, stream) {
          const name = CacheFilling.nameOf(place)
          const chunks = Array.from(yield* Stream.runCollect(Stream.map(stream, (chunk) => chunk.slice())))
          const bytes = chunks.reduce((sum, { length }) => sum + length, 0)
          yield* removeUnread(() => total() + bytes <= maximumBytes)
          if (total() + bytes > maximumBytes) {
            return yield* new CacheNotKept({ reason: "too_large", detail: `All caches have ${maximumBytes} bytes together.` })
          }
          all.delete(name)
          all.set(name, { chunks, bytes, readers: 0 })
        }),
        makeRoom: removeUnread(() => false)
      }, options)
    })
  )
