/**
 * A walk below a folder whose owner may swap any name in it for a link at any moment. Each folder is opened relative to the
 * descriptor of its parent and no name is resolved twice, so what is opened lies in the tree. Names are bytes.
 */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { closeSync, constants, fstatSync, lstatSync, openSync, readlinkSync, type Stats } from "node:fs"

export interface Folder {
  readonly fd: number
  /** Used where there is no `/proc` (macOS): there a swapped folder is not noticed, but no agent is isolated there either. */
  readonly path: Buffer
}

export interface OpenFile {
  readonly fd: number
  readonly stats: Stats
}

/** Why an entry is refused: it is missing, lies behind a link or may not be read, or has another type. */
type FolderRefusal = "not_found" | "protected" | "not_a_directory"
type FileRefusal = "not_found" | "protected" | "is_directory"

const { O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants

const below = (folder: Folder, name: Uint8Array): Buffer =>
  Buffer.concat([process.platform === "linux" ? Buffer.from(`/proc/self/fd/${folder.fd}`) : folder.path, Buffer.from("/"), name])

/** The folder by its descriptor. */
export const self = (folder: Folder): Buffer => process.platform === "linux" ? Buffer.from(`/proc/self/fd/${folder.fd}`) : folder.path

/** The entry itself: links are not followed. */
export const statEntry = (folder: Folder, name: Uint8Array): Stats | "gone" | "unreadable" => {
  try {
    return lstatSync(below(folder, name))
  } catch (cause) {
    // EPERM: what gVisor of 2022-12 says of a pipe that was made outside of it.
    if (["EACCES", "EPERM"].includes(String(codeOf(cause)))) return "unreadable"
    if (["ENOENT", "ENOTDIR", "ENAMETOOLONG"].includes(String(codeOf(cause)))) return "gone"
    throw cause
  }
}

/** Where the link of that name leads, as it is written. Throws as the system does. */
export const readLinkIn = (folder: Folder, name: Buffer): Buffer => readlinkSync(below(folder, name), { encoding: "buffer" })

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

/** Empty, `.` and `..` would leave the walk; a normalised path has none of them. No name has a zero byte. */
const isName = (segment: Buffer): boolean =>
  segment.length > 0 && segment.length <= 255 && !segment.equals(Buffer.from(".")) && !segment.equals(Buffer.from("..")) &&
  !segment.includes(0)

/**
 * Throws as the system does, `ENOTDIR` for what is no folder. Whether it is one is asked of the descriptor: with O_DIRECTORY, gVisor
 * (2022-12) follows a link in spite of O_NOFOLLOW.
 */
const openDirectory = (path: Buffer | string): number => {
  const fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
  if (fstatSync(fd).isDirectory()) return fd
  closeSync(fd)
  throw Object.assign(new Error("ENOTDIR: not a directory"), { code: "ENOTDIR" })
}

const enter = (folder: Folder, name: Buffer): Folder | FolderRefusal => {
  if (!isName(name)) return "not_found"
  const path = below(folder, name)
  try {
    return {
      fd: openDirectory(path),
      path: Buffer.concat([folder.path, Buffer.from("/"), name])
    }
  } catch (cause) {
    switch (codeOf(cause)) {
      case "ENOENT":
      case "ENAMETOOLONG":
        return "not_found"
      case "EACCES":
      case "EPERM":
      case "ENXIO":
      case "ENODEV":
      case "ELOOP":
      case "ENOTDIR": {
        // Only the wording depends on this second look, so a race here is harmless.
        const stats = statEntry(folder, name)
        if (stats === "gone") return "not_found"
        return stats !== "unreadable" && stats.isFile() ? "not_a_directory" : "protected"
      }
      default:
        throw cause
    }
  }
}

/** `path` has `/` between names; the empty one is `root` itself, a folder of the host. */
export const openFolder = (root: string, path: Buffer): Folder | FolderRefusal => {
  let folder: Folder
  try {
    folder = { fd: openDirectory(root), path: Buffer.from(root) }
  } catch (cause) {
    if (codeOf(cause) === "ENOENT") return "not_found"
    throw cause
  }
  const segments = segmentsOf(path)
  for (const [i, name] of segments.entries()) {
    const next = enter(folder, name)
    closeSync(folder.fd)
    if (typeof next === "string") return i < segments.length - 1 && next === "not_a_directory" ? "not_found" : next
    folder = next
  }
  return folder
}

/**
 * Opens a plain file with one name: a second one may be outside the tree. `names`: any number of them is well. The descriptor is the
 * caller's to close.
 */
export const openFileIn = (folder: Folder, name: Buffer, names: "one" | "any" = "one"): OpenFile | FileRefusal => {
  if (!isName(name)) return "not_found"
  let fd: number
  try {
    // O_NONBLOCK: opening a FIFO must not wait for its writer.
    fd = openSync(below(folder, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
  } catch (cause) {
    switch (codeOf(cause)) {
      case "ENOENT":
      case "ENOTDIR":
      case "ENAMETOOLONG":
        return "not_found"
      case "ELOOP": // a link
      case "ENXIO": // a socket, or a device without a driver
      case "ENODEV":
      case "EACCES":
      case "EPERM":
        return "protected"
      default:
        throw cause
    }
  }
  const stats = fstatSync(fd)
  if (stats.isFile() && (names === "any" || stats.nlink === 1)) return { fd, stats }
  closeSync(fd)
  return stats.isDirectory() ? "is_directory" : stats.nlink === 0 ? "not_found" : "protected"
}

/** The plain file with one name at `path` below `root`. The descriptor is the caller's to close. */
export const openFile = (root: string, path: Buffer): OpenFile | FileRefusal => {
  const [parent, name] = split(path)
  const folder = openFolder(root, parent)
  if (typeof folder === "string") return folder === "not_a_directory" ? "not_found" : folder
  try {
    return openFileIn(folder, name)
  } finally {
    closeSync(folder.fd)
  }
}
