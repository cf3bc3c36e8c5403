/** Writes a cache, and its image where boxes mount one. */
import { CacheNotKept, type CachePlace } from "@slipway/domain/environment/ports/SetupCaches"
import { codeTextOf } from "@slipway/domain/files/rules/SystemError"
import { Effect, Option, Stream } from "effect"
import { createHash, randomUUID } from "node:crypto"
import { constants, type FileHandle, mkdir, open, rename, rm, statfs } from "node:fs/promises"
import path from "node:path"
import * as DiskErrors from "../node/DiskErrors.ts"
import * as DurableFile from "../node/DurableFile.ts"
import { type Caches, fileOf, imageOf, PARTIAL, room, sizeOf, tooLarge, trim } from "./CacheFolder.ts"
import { openCache } from "./ReadCache.ts"
import type { Options } from "./SetupCachesFolder.ts"
import { packed } from "./Zstd.ts"

/** Free bytes of the disk that are needed beside the unpacked image. */
const SPARE_BYTES = 2 ** 28

const trouble = (error: unknown) =>
  new CacheNotKept({
    reason: "unavailable",
    detail: DiskErrors.of(error)?.detail ?? `The folder of caches cannot be written to (${codeTextOf(error)}).`
  })
const attempt = <A>(run: () => Promise<A>) => Effect.tryPromise({ try: run, catch: trouble })

/** Without an image the cache is unpacked for each sandbox. */
const addImage = Effect.fnUntraced(function*(
  caches: Caches,
  make: NonNullable<Options["makeImage"]>,
  name: string,
  unpackedBytes: number
) {
  const { directory } = caches
  const file = path.join(directory, imageOf(name))
  const partial = `${file}.${randomUUID()}${PARTIAL}`
  let size = 0
  yield* Effect.gen(function*() {
    const { bavail, bsize } = yield* attempt(() => statfs(directory))
    if (bavail * bsize < unpackedBytes + SPARE_BYTES) {
      return yield* new CacheNotKept({ reason: "unavailable", detail: "The disk has no room for it." })
    }
    const cache = yield* Effect.mapError(openCache(caches, name), trouble)
    if (Option.isNone(cache)) return
    yield* make(partial, cache.value.bytes)
    size = (yield* attempt(() => sizeOf(partial))).size
    caches.coming += size
    yield* room(caches)
    yield* Effect.uninterruptible(Effect.andThen(attempt(() => rename(partial, file)), Effect.sync(() => void (caches.kept += size))))
  }).pipe(
    Effect.scoped,
    Effect.catch(({ message }) => Effect.logWarning("a cache of a setup has no image", { reason: message })),
    Effect.ensuring(Effect.promise(async () => {
      caches.coming -= size
      await rm(partial, { force: true }).catch(() => undefined)
    }))
  )
})

export const writeCache = Effect.fnUntraced(function*<E, R>(
  caches: Caches,
  place: CachePlace,
  bytes: Stream.Stream<Uint8Array, E, R>
) {
  const { directory, makeImage, maximumBytes } = caches
  if (maximumBytes === 0) return yield* tooLarge(caches)
  const name = fileOf(place)
  const partial = path.join(directory, `${name}.${randomUUID()}${PARTIAL}`)
  yield* attempt(() => mkdir(directory, { recursive: true, mode: 0o700 }))
  yield* trim(caches, maximumBytes)
  const hash = createHash("sha256")
  let [size, unpackedBytes] = [0, 0]
  const counted = Stream.tap(bytes, ({ length }) => Effect.sync(() => void (unpackedBytes += length)))
  const add = Effect.fnUntraced(function*(handle: FileHandle, piece: Uint8Array) {
    size += piece.length
    caches.coming += piece.length
    yield* room(caches)
    yield* attempt(() => handle.writeFile(piece))
  })
  yield* Effect.acquireUseRelease(
    attempt(() => open(partial, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)),
    (handle) =>
      Stream.runForEach(packed(counted), (piece) => {
        hash.update(piece)
        return add(handle, piece)
      }).pipe(
        Effect.andThen(Effect.suspend(() => add(handle, hash.digest()))),
        Effect.andThen(attempt(() => handle.sync()))
      ),
    (handle) => Effect.promise(() => handle.close().catch(() => undefined))
  ).pipe(
    Effect.andThen(Effect.uninterruptible(attempt(async () => {
      await rename(partial, path.join(directory, name))
      await DurableFile.sync(directory)
    }))),
    Effect.tap(() => Effect.sync(() => void (caches.kept += size))),
    Effect.ensuring(Effect.promise(async () => {
      caches.coming -= size
      await rm(partial, { force: true }).catch(() => undefined)
    }))
  )
  if (makeImage !== undefined) yield* addImage(caches, makeImage, name, unpackedBytes)
})
