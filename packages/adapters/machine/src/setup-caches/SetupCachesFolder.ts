/**
 * `SetupCaches` as files of one machine: a file for each, which ends with the digest of all before, and an image with the same where
 * boxes can mount one. Written under another name and renamed when all of it is on the disk. A process that shares the folder costs
 * nothing but a cache.
 */
import { type CacheDamaged, MAX_CACHE_BYTES, SetupCaches } from "@slipway/domain/environment/ports/SetupCaches"
import * as CacheFilling from "@slipway/domain/environment/usecases/CacheFilling"
import { isAbsence } from "@slipway/domain/files/rules/SystemError"
import { observed } from "@slipway/domain/observability/Metrics"
import { Effect, Layer, Metric, Option, Semaphore, type Stream } from "effect"
import { statfs } from "node:fs/promises"
import path from "node:path"
import { type Caches, fileOf, files, IMAGE, KEPT, PARTIAL, remove, trim } from "./CacheFolder.ts"
import { openCache, unreadable } from "./ReadCache.ts"
import { writeCache } from "./WriteCache.ts"

export interface Options {
  /** Made when the first cache is filled. For the account of this process alone. */
  readonly directory: string
  /** The most bytes of all caches together, as they are on the disk. 0: no caches are kept. */
  readonly maximumBytes: number
  /** The most bytes of one cache, as it is filled. */
  readonly largest?: number
  /** Makes the file from what a cache was filled with, where boxes mount such (`overlay/CacheImages`). */
  readonly makeImage?: (file: string, bytes: Stream.Stream<Uint8Array, CacheDamaged>) => Effect.Effect<void, { readonly message: string }>
}

const GIB = 2 ** 30

const bytesGauge = Metric.gauge("slipway_setup_cache_bytes", { description: "What this machine keeps of caches of setups." })

/** A tenth of the disk that the folder is on or would be, at most 20 GiB. */
export const defaultBytes = (folder: string): Effect.Effect<number> =>
  Effect.promise(async () => {
    for (let at = path.resolve(folder);; at = path.dirname(at)) {
      const disk = await statfs(at).catch(() => undefined)
      if (disk !== undefined) return Math.min(20 * GIB, Math.floor(disk.blocks * disk.bsize / 10))
      if (at === path.dirname(at)) return 20 * GIB
    }
  })

/** Deletes what a killed process left. Another process that is writing keeps nothing then, and says so. */
const clear = Effect.fnUntraced(function*(caches: Caches) {
  const names = yield* files(caches)
  const isLeft = (name: string) => name.endsWith(PARTIAL) || (name.endsWith(IMAGE) && !names.includes(name.slice(0, -IMAGE.length) + KEPT))
  yield* Effect.promise(() => Promise.all(names.filter(isLeft).map((name) => remove(caches, name))))
})

export const make = Effect.fnUntraced(function*({ directory, largest = MAX_CACHE_BYTES, makeImage, maximumBytes }: Options) {
  const caches: Caches = {
    directory,
    maximumBytes,
    ...makeImage === undefined ? {} : { makeImage },
    kept: 0,
    coming: 0,
    readers: new Map(),
    oneAtATime: yield* Semaphore.make(1)
  }
  yield* clear(caches)
  yield* trim(caches, maximumBytes)
  yield* observed(bytesGauge, () => ({ value: caches.kept }))
  return yield* CacheFilling.make({
    open: (place) =>
      Effect.catch(openCache(caches, fileOf(place)), (error) =>
        Effect.as(
          isAbsence(error) ? Effect.void : unreadable(error),
          Option.none()
        )),
    write: (place, bytes) => writeCache(caches, place, bytes),
    makeRoom: trim(caches, 0)
  }, { largest })
})

export const layer = (options: Options) => Layer.effect(SetupCaches, make(options))
