/**
 * `SetupCaches` as files of one machine: a file for each, which ends with the digest of all before, and an image with the same where
 * boxes can mount one. Written under another name and renamed when all of it is on the disk. A process that shares the folder costs
 * nothing but a cache.
 */
import { CacheDamaged, CacheNotKept, type CachePlace, MAX_CACHE_BYTES, SetupCaches } from "@slipway/domain/environment/ports/SetupCaches"
import * as CacheFilling from "@slipway/domain/environment/usecases/CacheFilling"
import { codeOf, isAbsence } from "@slipway/domain/files/rules/SystemError"
import { observed } from "@slipway/domain/observability/Metrics"
import { Effect, Layer, Metric, Option, Semaphore, Stream } from "effect"
import { createHash, randomUUID } from "node:crypto"
import { constants, type FileHandle, mkdir, open, readdir, rename, rm, stat, statfs } from "node:fs/promises"
import path from "node:path"
import * as DiskTrouble from "../node/DiskTrouble.ts"
import { isThere } from "../node/IsThere.ts"
import { packed, unpacked } from "./Zstd.ts"

export interface Options {
  /** Made when the first cache is filled. For the account of this process alone. */
  readonly directory: string
  /** Of all caches together, as they are on the disk. 0: none is kept. */
  readonly maximumBytes: number
  /** Of one, as it is filled. */
  readonly largest?: number
  /** Makes the file from what a cache was filled with, where boxes mount such (`overlay/CacheImages`). */
  readonly makeImage?: (file: string, bytes: Stream.Stream<Uint8Array, CacheDamaged>) => Effect.Effect<void, { readonly message: string }>
}

const KEPT = ".zst"
const IMAGE = ".image"
const PARTIAL = ".partial"
/** Of the disk, beside what is unpacked into an image. */
const SPARE_BYTES = 2 ** 28
const DIGEST_BYTES = 32
/** Little enough that hashing it keeps nobody waiting. */
const PIECE_BYTES = 2 ** 18
/** Each takes a look when room is made. */
const MAX_CACHES = 10_000
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

const fileOf = (place: CachePlace): string => createHash("sha256").update(CacheFilling.nameOf(place)).digest("hex") + KEPT
const imageOf = (file: string): string => file.slice(0, -KEPT.length) + IMAGE
/** What it takes of the disk: an image is mostly holes. */
const sizeOf = (file: string) =>
  stat(file).then(({ blocks, mtimeMs, size }) => ({ size: file.endsWith(IMAGE) ? 512 * blocks : size, usedAt: mtimeMs }))

const piecesOf = (handle: FileHandle, bytes: number): Stream.Stream<Uint8Array, unknown> =>
  Stream.unfold(0, (at) =>
    Effect.map(
      Effect.tryPromise({
        try: () => handle.read(new Uint8Array(PIECE_BYTES), 0, Math.min(PIECE_BYTES, bytes - at), at),
        catch: (error) => error
      }),
      ({ buffer, bytesRead }) => bytesRead === 0 ? undefined : [buffer.subarray(0, bytesRead), at + bytesRead] as const
    ))

/** Whether its end is the digest of the rest. Fails with the system's error. */
const isWhole = Effect.fnUntraced(function*(handle: FileHandle, size: number) {
  if (size < DIGEST_BYTES) return false
  const hash = createHash("sha256")
  yield* Stream.runForEach(piecesOf(handle, size - DIGEST_BYTES), (piece) => Effect.sync(() => hash.update(piece)))
  const end = Buffer.alloc(DIGEST_BYTES)
  yield* Effect.tryPromise({ try: () => handle.read(end, 0, DIGEST_BYTES, size - DIGEST_BYTES), catch: (error) => error })
  return hash.digest().equals(end)
})

/** The disk did not give the bytes: they may be whole. */
const isOfSystem = (error: unknown): boolean => error instanceof Error && "syscall" in error

const unreadable = (error: unknown) => Effect.logWarning("a cache of a setup could not be read", { code: codeOf(error) })

const trouble = (error: unknown) =>
  new CacheNotKept({
    reason: "unavailable",
    detail: DiskTrouble.of(error)?.detail ?? `The folder of caches cannot be written to (${String(codeOf(error) ?? error)}).`
  })
const attempt = <A>(run: () => Promise<A>) => Effect.tryPromise({ try: run, catch: trouble })

export const make = Effect.fnUntraced(function*({ directory, largest = MAX_CACHE_BYTES, makeImage, maximumBytes }: Options) {
  /** As of the last look, and since. */
  let kept = 0
  /** Of what is being written. */
  let coming = 0
  const readers = new Map<string, number>()
  const oneAtATime = yield* Semaphore.make(1)

  /** What cannot be listed just now is left alone, and nothing of it is counted. */
  const files = Effect.promise(() => readdir(directory).catch(() => []))
  const remove = (name: string) => rm(path.join(directory, name), { force: true }).catch(() => undefined)
  /** A sandbox that was shown the image has a name of its own for it. */
  const forget = (name: string) => Effect.promise(() => Promise.all([remove(name), remove(imageOf(name))]))

  const look = Effect.gen(function*() {
    const names = (yield* files).filter((name) => name.endsWith(KEPT))
    const found = yield* Effect.promise(() =>
      Promise.all(
        names.map(async (name) => {
          const file = path.join(directory, name)
          const image = await sizeOf(imageOf(file)).catch(() => ({ size: 0 }))
          return sizeOf(file).then(({ size, usedAt }) => [{ name, size: size + image.size, usedAt }], () => [])
        })
      )
    )
    const all = found.flat()
    kept = all.reduce((sum, { size }) => sum + size, 0)
    return all.sort((a, b) => a.usedAt - b.usedAt)
  })
  /** Least recently used first, until what is kept and what comes are as little as `bytes`. */
  const trim = (bytes: number) =>
    Effect.gen(function*() {
      const all = yield* look
      let count = all.length
      for (const { name, size } of all) {
        if (kept + coming <= bytes && count <= MAX_CACHES) break
        if (readers.has(name)) continue
        yield* forget(name)
        yield* CacheFilling.count("removal")
        kept -= size
        count--
      }
    }).pipe(oneAtATime.withPermits(1))

  const tooLarge = new CacheNotKept({
    reason: "too_large",
    detail: `There is no room for it in the ${maximumBytes} bytes that all caches may have together.`
  })
  const room = Effect.fnUntraced(function*() {
    if (kept + coming <= maximumBytes) return
    if (coming <= maximumBytes) yield* trim(maximumBytes)
    if (kept + coming > maximumBytes) return yield* tooLarge
  })

  const read = (name: string) =>
    Effect.acquireRelease(
      Effect.sync(() => void readers.set(name, (readers.get(name) ?? 0) + 1)),
      () =>
        Effect.sync(() => {
          const others = (readers.get(name) ?? 0) - 1
          if (others > 0) readers.set(name, others)
          else readers.delete(name)
        })
    )

  const open_ = Effect.fnUntraced(function*(name: string) {
    yield* read(name)
    const handle = yield* Effect.acquireRelease(
      Effect.tryPromise({
        try: () => open(path.join(directory, name), constants.O_RDONLY | constants.O_NOFOLLOW),
        catch: (error) => error
      }),
      (handle) => Effect.promise(() => handle.close().catch(() => undefined))
    )
    const { size } = yield* Effect.tryPromise({ try: () => handle.stat(), catch: (error) => error })
    const damaged = Effect.andThen(
      Effect.logWarning("a cache of a setup was damaged and is removed", { file: name }),
      Effect.andThen(forget(name), CacheFilling.count("damaged"))
    )
    const file = path.join(directory, imageOf(name))
    const image = makeImage !== undefined && (yield* Effect.tryPromise({ try: () => isThere(file), catch: (error) => error })) ? file : null
    // Where there is an image, nobody may want the bytes.
    if (image === null && !(yield* isWhole(handle, size))) return yield* Effect.as(damaged, Option.none())
    const now = new Date()
    yield* Effect.promise(() => handle.utimes(now, now).catch(() => undefined))
    const checked = image === null ? Effect.succeed(true) : isWhole(handle, size)
    const bytes = Stream.unwrap(
      Effect.map(checked, (isWhole) => isWhole ? unpacked(piecesOf(handle, size - DIGEST_BYTES)) : Stream.fail(new CacheDamaged()))
    ).pipe(
      Stream.catch((error) =>
        Stream.fromEffect(Effect.andThen(isOfSystem(error) ? unreadable(error) : damaged, Effect.fail(new CacheDamaged())))
      )
    )
    return Option.some({ bytes, image })
  })

  /** Without one the cache is unpacked for each sandbox. */
  const addImage = Effect.fnUntraced(function*(make: NonNullable<Options["makeImage"]>, name: string, unpackedBytes: number) {
    const file = path.join(directory, imageOf(name))
    const partial = `${file}.${randomUUID()}${PARTIAL}`
    let size = 0
    yield* Effect.gen(function*() {
      const { bavail, bsize } = yield* attempt(() => statfs(directory))
      if (bavail * bsize < unpackedBytes + SPARE_BYTES) {
        return yield* new CacheNotKept({ reason: "unavailable", detail: "The disk has no room for it." })
      }
      const cache = yield* Effect.mapError(open_(name), trouble)
      if (Option.isNone(cache)) return
      yield* make(partial, cache.value.bytes)
      size = (yield* attempt(() => sizeOf(partial))).size
      coming += size
      yield* room()
      yield* Effect.uninterruptible(Effect.andThen(attempt(() => rename(partial, file)), Effect.sync(() => void (kept += size))))
    }).pipe(
      Effect.scoped,
      Effect.catch(({ message }) => Effect.logWarning("a cache of a setup has no image", { reason: message })),
      Effect.ensuring(Effect.promise(async () => {
        coming -= size
        await rm(partial, { force: true }).catch(() => undefined)
      }))
    )
  })

  const write = Effect.fnUntraced(function*<E, R>(place: CachePlace, bytes: Stream.Stream<Uint8Array, E, R>) {
    if (maximumBytes === 0) return yield* tooLarge
    const name = fileOf(place)
    const partial = path.join(directory, `${name}.${randomUUID()}${PARTIAL}`)
    yield* attempt(() => mkdir(directory, { recursive: true, mode: 0o700 }))
    yield* trim(maximumBytes)
    const hash = createHash("sha256")
    let [size, unpackedBytes] = [0, 0]
    const counted = Stream.tap(bytes, ({ length }) => Effect.sync(() => void (unpackedBytes += length)))
    const add = Effect.fnUntraced(function*(handle: FileHandle, piece: Uint8Array) {
      size += piece.length
      coming += piece.length
      yield* room()
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
        const folder = await open(directory, constants.O_RDONLY | constants.O_DIRECTORY)
        await folder.sync().finally(() => folder.close())
      }))),
      Effect.tap(() => Effect.sync(() => void (kept += size))),
      Effect.ensuring(Effect.promise(async () => {
        coming -= size
        await rm(partial, { force: true }).catch(() => undefined)
      }))
    )
    if (makeImage !== undefined) yield* addImage(makeImage, name, unpackedBytes)
  })

  // Of a process that was killed. Another one that is at it keeps nothing then, and says so.
  const names: ReadonlyArray<string> = yield* files
  const isLeft = (name: string) => name.endsWith(PARTIAL) || (name.endsWith(IMAGE) && !names.includes(name.slice(0, -IMAGE.length) + KEPT))
  yield* Effect.promise(() => Promise.all(names.filter(isLeft).map(remove)))
  yield* trim(maximumBytes)
  yield* observed(bytesGauge, () => ({ value: kept }))
  return yield* CacheFilling.make({
    open: (place) =>
      Effect.catch(open_(fileOf(place)), (error) =>
        Effect.as(
          isAbsence(error) ? Effect.void : unreadable(error),
          Option.none()
        )),
    write,
    makeRoom: trim(0)
  }, { largest })
})

export const layer = (options: Options) => Layer.effect(SetupCaches, make(options))
