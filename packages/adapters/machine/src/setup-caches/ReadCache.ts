/** Reads a cache: checked by its digest, and unpacked. */
import { CacheDamaged } from "@slipway/domain/environment/ports/SetupCaches"
import * as CacheFilling from "@slipway/domain/environment/usecases/CacheFilling"
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { Effect, Option, Stream } from "effect"
import { createHash } from "node:crypto"
import { constants, type FileHandle, open } from "node:fs/promises"
import path from "node:path"
import { isThere } from "../node/IsThere.ts"
import { type Caches, forget, imageOf } from "./CacheFolder.ts"
import { unpacked } from "./Zstd.ts"

const DIGEST_BYTES = 32
/** Little enough that hashing it keeps nothing waiting. */
const PIECE_BYTES = 2 ** 18

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

export const unreadable = (error: unknown) => Effect.logWarning("a cache of a setup could not be read", { code: codeOf(error) })

const read = ({ readers }: Caches, name: string) =>
  Effect.acquireRelease(
    Effect.sync(() => void readers.set(name, (readers.get(name) ?? 0) + 1)),
    () =>
      Effect.sync(() => {
        const others = (readers.get(name) ?? 0) - 1
        if (others > 0) readers.set(name, others)
        else readers.delete(name)
      })
  )

export const openCache = Effect.fnUntraced(function*(caches: Caches, name: string) {
  const { directory, makeImage } = caches
  yield* read(caches, name)
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
    Effect.andThen(forget(caches, name), CacheFilling.count("damaged"))
  )
  const file = path.join(directory, imageOf(name))
  const image = makeImage !== undefined && (yield* Effect.tryPromise({ try: () => isThere(file), catch: (error) => error })) ? file : null
  // Where there is an image, the bytes may not be needed.
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
