/**
 * `Blobs` in a folder that every process sees: a file for each blob, written under another name and renamed when all of it is on the disk.
 * Slipway does not make the folder itself: where a disk is not mounted, nothing shall be written beside it.
 */
import {
  type BlobKey,
  BlobMismatch,
  BlobNotFound,
  Blobs,
  BlobTooLarge,
  checked,
  MAX_BLOB_BYTES,
  nameOf
} from "@slipway/domain/files/ports/Blobs"
import { codeOf, codeTextOf, ifAbsent, ifCode, isAbsence } from "@slipway/domain/files/rules/SystemError"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Effect, Layer, Stream } from "effect"
import { createHash, randomUUID } from "node:crypto"
import { constants, type FileHandle, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises"
import path from "node:path"
import * as DurableFile from "../node/DurableFile.ts"
import { unavailable } from "./Advice.ts"

/** The folder of files that are not whole yet. It is made by the first put, and shows later that the disk is mounted. */
const PARTIAL = ".partial"

const READ_BYTES = 2 ** 18

const sha256 = () => createHash("sha256")

/** Advice for operators, by error code of the system. */
const advice: Readonly<Record<string, string>> = {
  ENOENT: "it is not there, or is empty. Make it, or mount what it is on",
  ENOTDIR: "it is no folder. Make one of that name, or choose another",
  ENOSPC: "its disk is full. Make room on it",
  EDQUOT: "the account of this process has used up its share of its disk. Make room, or raise the share",
  EROFS: "its disk is read-only. Mount it writable",
  EACCES: "the account of this process may not read and write there. Give the folder to that account",
  EPERM: "the account of this process may not read and write there. Give the folder to that account",
  ESTALE: "its server does not know it any more. Mount it again",
  EMFILE: "too many files are open. Raise the limit of open files of this process",
  ENFILE: "too many files are open on the machine. Raise its limit of open files"
}

/** All but a name that cannot be opened as a file says nothing about the blob. */
const isGone = (error: unknown): boolean => isAbsence(error) || codeOf(error) === "ELOOP" || codeOf(error) === "EISDIR"

/** Begins the names of all unfinished files of a blob. */
const partialOf = (key: BlobKey) => createHash("sha256").update(nameOf(key)).digest("hex")

/** A folder stays once it is made, and is on the disk before a file in it is. */
const made = async (folder: string) => {
  const isNew = await mkdir(folder, { mode: 0o700 }).then(() => true, ifCode(["EEXIST"], false))
  if (isNew) await DurableFile.sync(path.dirname(folder))
}

const closing = (handle: FileHandle) => Effect.promise(() => handle.close().catch(() => undefined))

const make = (folder: string): Blobs["Service"] => {
  const failed = (cause: unknown) =>
    unavailable(
      `Blobs cannot be kept in ${folder}: ${advice[codeTextOf(cause)] ?? `${codeTextOf(cause)}. See to its disk`}.`,
      codeTextOf(cause)
    )
  const attempt = <A>(run: () => Promise<A>): Effect.Effect<A, StoreUnavailable> =>
    Effect.catch(Effect.tryPromise({ try: run, catch: (error) => error }), failed)
  const partials = path.join(folder, PARTIAL)
  const fileOf = (key: BlobKey) => path.join(folder, nameOf(key))
  /** Fails where the folder is not what it was, such as the mount point of a disk that is not mounted: then nothing is said of a file. */
  const mounted = attempt(() => stat(partials))

  const isStored = (key: BlobKey) =>
    attempt(() => stat(fileOf(key)).then((found) => found.isFile() && found.size === key.size, ifAbsent(false)))

  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

  /** The whole content in an unfinished file, on the disk. */
  const write = <E, R>(partial: string, content: Stream.Stream<Uint8Array, E, R>) =>
    Effect.acquireUseRelease(
      attempt(() => open(partial, flags, 0o600)),
      (handle) =>
        Effect.andThen(
          Stream.runForEach(content, (chunk) => attempt(() => handle.writeFile(chunk))),
          attempt(() => handle.sync())
        ),
      closing
    )

  return Blobs.of({
    put: Effect.fn("Blobs.put")(function*<E, R>(key: BlobKey, content: Stream.Stream<Uint8Array, E, R>) {
      const file = fileOf(key)
      if (key.size > MAX_BLOB_BYTES) return yield* new BlobTooLarge()
      if (yield* isStored(key)) return
      yield* attempt(async () => {
        await made(partials)
        await made(path.dirname(file))
      })
      const partial = path.join(partials, `${partialOf(key)}.${randomUUID()}`)
      yield* Effect.onError(
        Effect.andThen(
          write(partial, checked(key, content, sha256, () => new BlobMismatch())),
          // Not interruptible: the rename is not undone.
          Effect.uninterruptible(attempt(async () => {
            await rename(partial, file).catch(async (error: unknown) => {
              // A server of files says so also of what it did before, when its first answer was lost.
              if (codeOf(error) !== "ENOENT" || !await stat(file).then(() => true, ifAbsent(false))) throw error
            })
            await DurableFile.sync(path.dirname(file))
          }))
        ),
        () => Effect.promise(() => rm(partial, { force: true }).catch(() => undefined))
      )
    }),

    get: (key) =>
      Stream.suspend(() => {
        const file = fileOf(key)
        const notRead = (error: unknown): Effect.Effect<never, BlobNotFound | StoreUnavailable> =>
          isGone(error) ? Effect.andThen(mounted, Effect.fail(new BlobNotFound())) : failed(error)
        const reading = <A>(run: () => Promise<A>) => Effect.catch(Effect.tryPromise({ try: run, catch: (error) => error }), notRead)
        const opened = reading(() => open(file, constants.O_RDONLY | constants.O_NOFOLLOW))
        const chunks = Stream.unwrap(Effect.map(Effect.acquireRelease(opened, closing), (handle) =>
          Stream.unfold(0, () =>
            Effect.map(
              reading(() => handle.read(new Uint8Array(READ_BYTES), 0, READ_BYTES)),
              ({ buffer, bytesRead }) => bytesRead === 0 ? undefined : [buffer.subarray(0, bytesRead), 0] as const
            ))))
        return checked(key, chunks, sha256, () => new BlobNotFound())
      }),

    remove: Effect.fn("Blobs.remove")(function*(key: BlobKey) {
      const file = fileOf(key)
      const mine = partialOf(key)
      yield* attempt(async () => {
        const unfinished = (await readdir(partials)).filter((name) => name.startsWith(mine))
        for (const name of [...unfinished.map((name) => path.join(partials, name)), file]) await rm(name, { force: true })
      })
    })
  })
}

/** `folder`: absolute. */
export const layer = (folder: string): Layer.Layer<Blobs> => Layer.sync(Blobs, () => make(folder))
