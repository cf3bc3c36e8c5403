/**
 * Reads below a folder whose owner may swap any name in it for a link at any moment. Each folder is opened relative to
 * the descriptor of its parent and no name is resolved twice, so what is read lies in the tree. Names are bytes.
 */
import { FileNotFound, FileProtected, IsDirectory, NotADirectory } from "@slipway/domain/files/WorkingTrees"
import { Effect, Result, type Scope } from "effect"
import { close, closeSync, constants, fstatSync, lstatSync, openSync, read as readDescriptor, type Stats } from "node:fs"
import { opendir } from "node:fs/promises"
import { promisify } from "node:util"
import { FirstInOrder } from "./FirstInOrder.ts"

interface Folder {
  readonly fd: number
  /** Used where there is no `/proc` (macOS): there a swapped folder is not noticed, but no agent is isolated there either. */
  readonly path: Buffer
}

interface OpenFile {
  readonly fd: number
  readonly stats: Stats
}

const { O_DIRECTORY, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants

const below = (folder: Folder, name: Uint8Array): Buffer =>
  Buffer.concat([process.platform === "linux" ? Buffer.from(`/proc/self/fd/${folder.fd}`) : folder.path, Buffer.from("/"), name])

const self = (folder: Folder): Buffer => process.platform === "linux" ? Buffer.from(`/proc/self/fd/${folder.fd}`) : folder.path

const errorCode = (cause: unknown): string | undefined =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : undefined

/** What the name is, itself: links are not followed. */
export const statEntry = (folder: Folder, name: Uint8Array): Stats | "gone" | "unreadable" => {
  try {
    return lstatSync(below(folder, name))
  } catch (cause) {
    if (errorCode(cause) === "EACCES") return "unreadable"
    if (["ENOENT", "ENOTDIR", "ENAMETOOLONG"].includes(errorCode(cause) ?? "")) return "gone"
    throw cause
  }
}

/** The folder and the name in it. */
export const split = (path: Buffer): readonly [folder: Buffer, name: Buffer] => {
  const slash = path.lastIndexOf(0x2f)
  return [path.subarray(0, Math.max(slash, 0)), path.subarray(slash + 1)]
}

const segmentsOf = (bytes: Buffer): Array<Buffer> => {
  const segments: Array<Buffer> = []
  for (let start = 0; start < bytes.length;) {
    const slash = bytes.indexOf(0x2f, start)
    const end = slash < 0 ? bytes.length : slash
    segments.push(bytes.subarray(start, end))
    start = end + 1
  }
  return segments
}

/** Empty, `.` and `..` would leave the walk; a normalised path has none of them. */
const isName = (segment: Buffer): boolean =>
  segment.length > 0 && segment.length <= 255 && !segment.equals(Buffer.from(".")) && !segment.equals(Buffer.from(".."))

const enter = (folder: Folder, name: Buffer): Result.Result<Folder, FileNotFound | NotADirectory | FileProtected> => {
  if (!isName(name)) return Result.fail(new FileNotFound())
  const path = below(folder, name)
  try {
    return Result.succeed({
      fd: openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW),
      path: Buffer.concat([folder.path, Buffer.from("/"), name])
    })
  } catch (cause) {
    switch (errorCode(cause)) {
      case "ENOENT":
      case "ENAMETOOLONG":
        return Result.fail(new FileNotFound())
      case "EACCES":
        return Result.fail(new FileProtected())
      case "ELOOP":
      case "ENOTDIR": {
        // Only the wording depends on this second look, so a race here is harmless.
        const stats = statEntry(folder, name)
        if (stats === "gone") return Result.fail(new FileNotFound())
        return Result.fail(stats !== "unreadable" && stats.isFile() ? new NotADirectory() : new FileProtected())
      }
      default:
        throw cause
    }
  }
}

/** `path` has `/` between names; the empty one is `root` itself, a folder of the host. */
const openFolderSync = (root: string, path: Buffer): Result.Result<Folder, FileNotFound | NotADirectory | FileProtected> => {
  let folder: Folder
  try {
    folder = { fd: openSync(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), path: Buffer.from(root) }
  } catch (cause) {
    if (errorCode(cause) === "ENOENT") return Result.fail(new FileNotFound())
    throw cause
  }
  const segments = segmentsOf(path)
  for (const [i, name] of segments.entries()) {
    const next = enter(folder, name)
    closeSync(folder.fd)
    if (Result.isFailure(next)) {
      return i < segments.length - 1 && next.failure._tag === "NotADirectory" ? Result.fail(new FileNotFound()) : next
    }
    folder = next.success
  }
  return Result.succeed(folder)
}

/** `one`: a second name may be outside the tree, so such a file is refused. */
type HardLinks = "one" | "any"

/** Opens a plain file. The descriptor is the caller's to close. */
const openFileSync = (
  folder: Folder,
  name: Buffer,
  hardLinks: HardLinks
): Result.Result<OpenFile, FileNotFound | IsDirectory | FileProtected> => {
  if (!isName(name)) return Result.fail(new FileNotFound())
  let fd: number
  try {
    // O_NONBLOCK: opening a FIFO must not wait for its writer.
    fd = openSync(below(folder, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
  } catch (cause) {
    switch (errorCode(cause)) {
      case "ENOENT":
      case "ENOTDIR":
      case "ENAMETOOLONG":
        return Result.fail(new FileNotFound())
      case "ELOOP": // a link
      case "ENXIO": // a socket, or a device without a driver
      case "ENODEV":
      case "EACCES":
      case "EPERM":
        return Result.fail(new FileProtected())
      default:
        throw cause
    }
  }
  const stats = fstatSync(fd)
  if (stats.isFile() && (stats.nlink === 1 || hardLinks === "any")) return Result.succeed({ fd, stats })
  closeSync(fd)
  return Result.fail(stats.isDirectory() ? new IsDirectory() : stats.nlink === 0 ? new FileNotFound() : new FileProtected())
}

const closeDescriptor = ({ fd }: { readonly fd: number }): Effect.Effect<void> => Effect.promise(() => promisify(close)(fd))

/** The folder at `path` below `root`. The descriptor is released with the scope. */
export const openFolder = (root: string, path: Buffer): Effect.Effect<
  Folder,
  FileNotFound | NotADirectory | FileProtected,
  Scope.Scope
> => Effect.acquireRelease(Effect.suspend(() => Effect.fromResult(openFolderSync(root, path))), closeDescriptor)

/** The plain file with one name at `path` below `root`. The descriptor is released with the scope. */
export const openFile = (root: string, path: Buffer): Effect.Effect<
  OpenFile,
  FileNotFound | IsDirectory | FileProtected,
  Scope.Scope
> => {
  const [parent, name] = split(path)
  return Effect.acquireRelease(
    Effect.scoped(
      openFolder(root, parent).pipe(
        Effect.catchTag("NotADirectory", () => new FileNotFound()),
        Effect.flatMap((folder) => Effect.fromResult(openFileSync(folder, name, "one")))
      )
    ),
    closeDescriptor
  )
}

const CHUNK_BYTES = 65_536

/** The bytes of `[position, end)`, at most 64 KiB of them; fewer only where the file ends. */
export const readChunk = (fd: number, position: number, end: number): Effect.Effect<Uint8Array> =>
  // Not interruptible, so that the descriptor is never closed, and its number given away, under a running read.
  Effect.uninterruptible(Effect.promise(() => {
    const buffer = new Uint8Array(Math.min(CHUNK_BYTES, end - position))
    return promisify(readDescriptor)(fd, buffer, 0, buffer.length, position).then(({ bytesRead }) => buffer.subarray(0, bytesRead))
  }))

/** More names than this are not even looked at. */
const MAXIMUM_NAMES = 200_000

export interface Name {
  /** A character for each byte: names need not be text. */
  readonly latin1: string
  readonly isDirectory: boolean
}

/** Directories first, then byte order. */
export const byOrder = (a: Name, b: Name): number =>
  Number(b.isDirectory) - Number(a.isDirectory) || (a.latin1 < b.latin1 ? -1 : Number(a.latin1 > b.latin1))

/**
 * The first names in a folder, as many as asked for, and whether there are more. Each is a directory as far as the file system
 * says so. Without `.`, `..` and `.git`.
 */
export const names = (folder: Folder, most: number): Effect.Effect<{ readonly names: ReadonlyArray<Name>; readonly isCut: boolean }> =>
  Effect.promise(async () => {
    const first = new FirstInOrder(most, byOrder)
    let left = MAXIMUM_NAMES
    for await (const entry of await opendir(self(folder), { encoding: "latin1", bufferSize: 256 })) {
      if (left-- === 0) break
      if (entry.name.toLowerCase() !== ".git") first.add({ latin1: entry.name, isDirectory: entry.isDirectory() })
    }
    return { names: first.take(), isCut: first.isCut || left < 0 }
  })
