/**
 * The bytes of checkpoints in a folder that every process sees: a file for each put, written under another name and renamed when all
 * of it is on the disk. Slipway does not make the folder itself: where a disk is not mounted, nothing shall be written beside it.
 */
import { codeOf, codeTextOf, ifAbsent, ifCode, isAbsence } from "@slipway/domain/files/rules/SystemError"
import { CheckpointNotFound } from "@slipway/domain/sandbox/ports/Checkpoints"
import { StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Effect, Stream } from "effect"
import { constants, type FileHandle, mkdir, open, rename, rm, stat, statfs } from "node:fs/promises"
import path from "node:path"
import type { CheckpointContents, ContentKey } from "./CheckpointContents.ts"
import { PIECE_BYTES } from "./Compression.ts"

/** Ends the name of what is not whole yet. */
const PARTIAL = ".partial"

/** Advice for operators, by error code of the system. */
const advice: Readonly<Record<string, string>> = {
  ENOENT: "it is not there. Make it, or mount what it is on",
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

/** Nothing is there, or no file. */
const isGone = (error: unknown): boolean => isAbsence(error) || codeOf(error) === "ELOOP" || codeOf(error) === "EISDIR"

/** Completes "Checkpoints cannot be kept in …: ". */
export const adviceFor = (error: unknown): string => advice[codeTextOf(error)] ?? `${codeTextOf(error)}. See to its disk`

/** By the end of the sandbox's name, which is random: some thousand files in each where there are a hundred thousand sandboxes. */
const shelfOf = ({ sandboxId }: ContentKey): string => sandboxId.slice(-2)

/** Two databases that were one, or that share the folder, differ in one of them. */
export const fileOf = (key: ContentKey): string => path.join(shelfOf(key), `${key.sandboxId}-${key.checkpoint}-${key.fence}-${key.id}.zst`)

const sync = async (folder: string) => {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY)
  await handle.sync().finally(() => handle.close())
}

/** Free bytes of an absolute `folder` for the account of this process, after it wrote there. Rejects with what hinders it. */
export const probe = async (folder: string): Promise<number> => {
  const file = path.join(folder, `.writable-${process.pid}-${process.hrtime.bigint()}`)
  await (await open(file, "wx", 0o600)).close()
  await rm(file)
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

/** In an absolute `folder`. */
export const make = (folder: string): CheckpointContents => {
  const unavailable = (cause: unknown) =>
    Effect.andThen(
      Effect.logError(`Checkpoints cannot be kept in ${folder}: ${adviceFor(cause)}.`, { code: codeTextOf(cause) }),
      Effect.fail(new StoreUnavailable({ cause }))
    )
  const attempt = <A>(run: () => Promise<A>) => Effect.catch(Effect.tryPromise({ try: run, catch: (error) => error }), unavailable)

  const closing = (handle: FileHandle) => Effect.promise(() => handle.close().catch(() => undefined))

  /** A shelf stays once it is made, and is on the disk before a file in it is. */
  const shelf = async (key: ContentKey) => {
    const made = await mkdir(path.join(folder, shelfOf(key)), { mode: 0o700 }).then(() => true, ifCode(["EEXIST"], false))
    if (made) await sync(folder)
  }

  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW

  return {
    place: "folder",

    write: Effect.fnUntraced(function*(key, pieces) {
      const file = path.join(folder, fileOf(key))
      yield* attempt(() => shelf(key))
      yield* Effect.acquireUseRelease(
        attempt(() => open(file + PARTIAL, flags, 0o600)),
        (handle) =>
          Effect.andThen(
            Stream.runForEach(pieces, (piece) => attempt(() => handle.writeFile(piece))),
            attempt(() => handle.sync())
          ),
        closing
      )
      // Not interruptible: an interrupted caller removes both names, which must not happen during the rename.
      const isStored = yield* Effect.uninterruptible(attempt(async () => {
        const renamed = await rename(file + PARTIAL, file).then(() => true, (error: unknown) => {
          // A server of files says so also of what it did before, when its first answer was lost.
          if (codeOf(error) === "ENOENT") return stat(file).then(() => true, ifAbsent(false))
          throw error
        })
        await sync(path.dirname(file))
        return renamed
      }))
      // Pruned meanwhile. Only contents whose lease is gone are pruned, so they can no longer be recorded.
      if (!isStored) return yield* new StaleLease()
    }),

    read: (key) => {
      const file = path.join(folder, fileOf(key))
      /** It may be read again, and an older one would be less. */
      const notRead = (error: unknown): Effect.Effect<never, CheckpointNotFound | StoreUnavailable> =>
        isGone(error) ? Effect.fail(new CheckpointNotFound()) : Effect.andThen(
          Effect.logError(`The checkpoint ${file} cannot be read: ${adviceFor(error)}.`, { code: codeTextOf(error) }),
          Effect.fail(new StoreUnavailable({ cause: error }))
        )
      /** Fails if it is not there. Where its shelf is missing, the folder is not what it was: then nothing is said of the file. */
      const opened = Effect.catch(
        Effect.tryPromise({ try: () => open(file, constants.O_RDONLY | constants.O_NOFOLLOW), catch: (error) => error }),
        (error) =>
          Effect.andThen(
            attempt(async () => (await open(path.dirname(file), constants.O_RDONLY | constants.O_DIRECTORY)).close()),
            notRead(error)
          )
      )
      return Stream.unwrap(Effect.map(Effect.acquireRelease(opened, closing), (handle) =>
        Stream.unfold(0, () =>
          Effect.map(
            Effect.catch(
              Effect.tryPromise({ try: () => handle.read(new Uint8Array(PIECE_BYTES), 0, PIECE_BYTES), catch: (error) => error }),
              notRead
            ),
            ({ buffer, bytesRead }) => bytesRead === 0 ? undefined : [buffer.subarray(0, bytesRead), 0] as const
          ))))
    },

    remove: (key) => {
      const file = path.join(folder, fileOf(key))
      return attempt(async () => {
        for (const name of [file + PARTIAL, file]) await rm(name, { force: true })
      })
    }
  }
}
