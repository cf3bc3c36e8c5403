/**
 * Contents of Git LFS beside the objects of a mirror, from which trees on this machine are filled. Like those objects, boxes of the
 * mirror's repository read them, and they are removed with the mirror:
 *
 *     <mirror>/objects/lfs/<first two characters>/<SHA-256>
 *
 * A content is there when it is whole: its size and SHA-256 were those of its pointer.
 */
import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import * as DiskErrors from "@slipway/machine/node/DiskErrors"
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { chmod, mkdir, open, rename, rm, stat } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { Mirrors } from "../mirror/Mirrors.ts"
import { BATCH, batch, download, type LfsServer } from "./LfsApi.ts"
import { LfsFailed } from "./LfsHttp.ts"
import type { LfsObject } from "./LfsPointer.ts"

/** Transfers of one tree at a time. */
const AT_ONCE = 4

export const folderOf = (objects: string): string => join(objects, "lfs")

/** The file of a content. `objects`: the folder with the mirror's objects. */
export const fileOf = (objects: string, oid: string): string => join(folderOf(objects), oid.slice(0, 2), oid)

/** Whether the content is there. */
export const has = (objects: string, { oid, size }: LfsObject): Promise<boolean> =>
  stat(fileOf(objects, oid)).then((found) => found.isFile() && found.size === size, ifAbsent(false))

const LARGER = "The server sends more bytes than its pointer says."
const SMALLER = "The server sends fewer bytes than its pointer says."
const OTHER = "The server sends another content than its pointer says."

/** Writes an answer to the file `draft`. Rejects with `LfsFailed` when it is another content than the pointer says. */
const receive = async (
  server: LfsServer,
  object: LfsObject,
  action: Parameters<typeof download>[1],
  draft: string,
  signal: AbortSignal
): Promise<void> => {
  const hash = createHash("sha256")
  let left = object.size
  const file = await open(draft, "wx", 0o600)
  try {
    await download(server, action, async (bytes) => {
      left -= bytes.length
      if (left < 0) throw new LfsFailed(LARGER, false)
      hash.update(bytes)
      await file.writeFile(bytes)
    }, signal)
    if (left > 0) throw new LfsFailed(SMALLER, false)
    if (hash.digest("hex") !== object.oid) throw new LfsFailed(OTHER, false)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Downloads one object. Answers why it could not be had; `null`: it is there. Rejects for what this machine's disk refuses. */
const take = async (
  server: LfsServer,
  object: LfsObject,
  objects: string,
  site: string,
  action: Parameters<typeof download>[1],
  signal: AbortSignal
): Promise<string | null> => {
  const draft = join(site, object.oid)
  const file = fileOf(objects, object.oid)
  try {
    await receive(server, object, action, draft, signal)
    await mkdir(dirname(file), { recursive: true, mode: 0o755 })
    // Boxes of other users read it.
    await Promise.all([chmod(draft, 0o444), chmod(dirname(file), 0o755), chmod(folderOf(objects), 0o755)])
    await rename(draft, file)
    return null
  } catch (error) {
    await rm(draft, { force: true })
    if (error instanceof LfsFailed) return error.message
    // The boot goes on without it.
    const trouble = DiskErrors.of(error)
    if (trouble === undefined) throw error
    return trouble.detail
  }
}

/** Runs `ask`. A failure of the server is its answer, and what else rejects is a defect. */
export const asked = <A>(ask: (signal: AbortSignal) => Promise<A>): Effect.Effect<A | LfsFailed> =>
  Effect.promise((signal) =>
    ask(signal).catch((error: unknown) => {
      if (error instanceof LfsFailed) return error
      throw error
    })
  )

/**
 * Brings these objects, each of which is missing, into the store: the first 100, then the next. Answers why each of the others could not
 * be had, by their ids. A server that fails as a whole is not asked again. `left`: milliseconds for all of it.
 */
export const bring = Effect.fn("LfsStore.bring")(
  function*(
    { landingSite }: Pick<Mirrors, "landingSite">,
    server: LfsServer,
    objects: string,
    wanted: ReadonlyArray<LfsObject>,
    left: number,
    late: string
  ) {
    const missing = new Map(wanted.map(({ oid }) => [oid, late]))
    const site = yield* landingSite
    yield* Effect.promise(() => mkdir(site, { recursive: true, mode: 0o700 }))
    const one = Effect.fnUntraced(function*(object: LfsObject, told: Effect.Success<ReturnType<typeof askFor>>) {
      const about = told.get(object.oid)
      const action = about?.actions.download
      const outcome = about === undefined
        ? "The Git LFS server says nothing of it."
        : about.error ?? (action === undefined
          ? "The Git LFS server does not say where it is."
          : yield* Effect.promise((signal) => take(server, object, objects, site, action, signal)))
      if (outcome === null) missing.delete(object.oid)
      else missing.set(object.oid, outcome)
    })
    const askFor = (some: ReadonlyArray<LfsObject>) =>
      Effect.flatMap(
        asked((signal) => batch(server, "download", some, signal)),
        (told) => told instanceof LfsFailed ? Effect.fail(told) : Effect.succeed(told)
      )
    const all = Effect.gen(function*() {
      for (let at = 0; at < wanted.length; at += BATCH) {
        const some = wanted.slice(at, at + BATCH)
        const told = yield* askFor(some)
        yield* Effect.forEach(some, (object) => one(object, told), { concurrency: AT_ONCE, discard: true })
      }
    }).pipe(Effect.catch((failure) =>
      Effect.sync(() => {
        for (const [oid, reason] of missing) if (reason === late) missing.set(oid, failure.message)
      })
    ))
    yield* Effect.timeoutOrElse(all, { duration: left, orElse: () => Effect.void })
    return missing
  },
  Effect.scoped
)
