/** The folder of caches: their files, and the space that they may take. */
import { CacheNotKept, type CachePlace } from "@slipway/domain/environment/ports/SetupCaches"
import * as CacheFilling from "@slipway/domain/environment/usecases/CacheFilling"
import { Effect, type Semaphore } from "effect"
import { createHash } from "node:crypto"
import { readdir, rm, stat } from "node:fs/promises"
import path from "node:path"
import type { Options } from "./SetupCachesFolder.ts"

export const KEPT = ".zst"
export const IMAGE = ".image"
export const PARTIAL = ".partial"
/** Each takes a look when room is made. */
const MAX_CACHES = 10_000

export interface Caches extends Pick<Options, "directory" | "makeImage" | "maximumBytes"> {
  /** Bytes on the disk: as of the last look, and since. */
  kept: number
  /** Bytes that are being written. */
  coming: number
  /** How many read a file. */
  readonly readers: Map<string, number>
  readonly oneAtATime: Semaphore.Semaphore
}

export const fileOf = (place: CachePlace): string => createHash("sha256").update(CacheFilling.nameOf(place)).digest("hex") + KEPT
export const imageOf = (file: string): string => file.slice(0, -KEPT.length) + IMAGE
/** The bytes that the file takes on disk: an image is mostly holes. */
export const sizeOf = (file: string) =>
  stat(file).then(({ blocks, mtimeMs, size }) => ({ size: file.endsWith(IMAGE) ? 512 * blocks : size, usedAt: mtimeMs }))

/** A folder that cannot be listed just now is left alone, and counts as empty. */
export const files = ({ directory }: Pick<Caches, "directory">): Effect.Effect<ReadonlyArray<string>> =>
  Effect.promise(() => readdir(directory).catch(() => []))
export const remove = ({ directory }: Caches, name: string) => rm(path.join(directory, name), { force: true }).catch(() => undefined)
/** A sandbox that was shown the image has a name of its own for it. */
export const forget = (caches: Caches, name: string) =>
  Effect.promise(() => Promise.all([remove(caches, name), remove(caches, imageOf(name))]))

const look = Effect.fnUntraced(function*(caches: Caches) {
  const names = (yield* files(caches)).filter((name) => name.endsWith(KEPT))
  const found = yield* Effect.promise(() =>
    Promise.all(
      names.map(async (name) => {
        const file = path.join(caches.directory, name)
        const image = await sizeOf(imageOf(file)).catch(() => ({ size: 0 }))
        return sizeOf(file).then(({ size, usedAt }) => [{ name, size: size + image.size, usedAt }], () => [])
      })
    )
  )
  const all = found.flat()
  caches.kept = all.reduce((sum, { size }) => sum + size, 0)
  return all.sort((a, b) => a.usedAt - b.usedAt)
})
/** Least recently used first, until what is kept and what comes are as little as `bytes`. */
export const trim = (caches: Caches, bytes: number) =>
  Effect.gen(function*() {
    const all = yield* look(caches)
    let count = all.length
    for (const { name, size } of all) {
      if (caches.kept + caches.coming <= bytes && count <= MAX_CACHES) break
      if (caches.readers.has(name)) continue
      yield* forget(caches, name)
      yield* CacheFilling.count("removal")
      caches.kept -= size
      count--
    }
  }).pipe(caches.oneAtATime.withPermits(1))

export const tooLarge = ({ maximumBytes }: Caches) =>
  new CacheNotKept({
    reason: "too_large",
    detail: `There is no room for it in the ${maximumBytes} bytes that all caches may have together.`
  })
/** Makes room for what comes, or fails. */
export const room = Effect.fnUntraced(function*(caches: Caches) {
  const { maximumBytes } = caches
  if (caches.kept + caches.coming <= maximumBytes) return
  if (caches.coming <= maximumBytes) yield* trim(caches, maximumBytes)
  if (caches.kept + caches.coming > maximumBytes) return yield* tooLarge(caches)
})
