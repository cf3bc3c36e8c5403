/** Errors of the machine's disk as sentences: it is full, read-only or broken, or too many files are open. */
import { accessSync, constants, existsSync } from "node:fs"
import { dirname } from "node:path"

interface DiskError {
  /** Sentences for people: what it is and what to do. They name no path. */
  readonly detail: string
  /** A retry may help, or freeing space. Otherwise the operator has to repair the machine. */
  readonly retryable: boolean
  readonly isFull: boolean
}

const FULL: DiskError = {
  detail: "There is no space left on the machine's disk. End unused sandboxes, or ask the operator of this service to free space.",
  retryable: true,
  isFull: true
}
const READ_ONLY: DiskError = {
  detail: "The machine's disk is read-only. The operator of this service has to make it writable.",
  retryable: false,
  isFull: false
}
const BROKEN: DiskError = {
  detail: "The machine's disk fails. The operator of this service has to repair it.",
  retryable: false,
  isFull: false
}
const OPEN_FILES: DiskError = {
  detail: "Too many files are open on this machine. The operator of this service has to raise the limit of open files.",
  retryable: true,
  isFull: false
}

/** By the system's word for it. Being out of inodes is `ENOSPC` too. */
const BY_CODE: Readonly<Record<string, DiskError>> = {
  ENOSPC: FULL,
  EDQUOT: FULL,
  EROFS: READ_ONLY,
  EIO: BROKEN,
  EMFILE: OPEN_FILES,
  ENFILE: OPEN_FILES
}
/** As the C library says it under `LC_ALL=C`. */
const BY_TEXT: ReadonlyArray<readonly [RegExp, DiskError]> = [
  [/No space left on device|Disk quota exceeded/u, FULL],
  [/Read-only file system/u, READ_ONLY],
  [/Input\/output error/u, BROKEN],
  [/Too many open files/u, OPEN_FILES],
  // Git's own words where the space ends within a file; it does not say why.
  [/unable to write (?:new index )?file/u, FULL]
]

const textOf = (error: object, name: string): string => {
  const value: unknown = Reflect.get(error, name)
  return typeof value === "string" ? value : ""
}

/** Node's recursive `mkdir` says `ENOENT` where it may not write. */
const isReadOnlyAbove = (path: string): boolean => {
  let folder = dirname(path)
  while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder)
  try {
    accessSync(folder, constants.W_OK)
    return false
  } catch (cause) {
    return cause instanceof Error && textOf(cause, "code") === "EROFS"
  }
}

/** `undefined`: it is no trouble of the disk. Knows errors of Node, and of processes that keep what they said in `stderr`. */
export const of = (error: unknown): DiskError | undefined => {
  if (typeof error !== "object" || error === null) return undefined
  const code = textOf(error, "code")
  if (code === "ENOENT" && textOf(error, "syscall") === "mkdir" && isReadOnlyAbove(textOf(error, "path"))) return READ_ONLY
  // A remote's disk is not ours.
  const said = textOf(error, "stderr").split("\n").filter((line) => !line.startsWith("remote:")).join("\n")
  return BY_CODE[code] ?? BY_TEXT.find(([pattern]) => pattern.test(said))?.[1]
}
