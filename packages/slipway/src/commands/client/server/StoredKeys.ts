/**
 * The file with the API keys that a person has for servers, by address, in the user's configuration folder. Only the user may read or
 * replace it.
 */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  type Stats,
  writeSync
} from "node:fs"
import path from "node:path"
import { homeFolder } from "../../../service/storage/HomeFolder.ts"

interface Stored {
  readonly servers: Readonly<Record<string, { readonly key: string }>>
}
const NOTHING: Stored = { servers: {} }
/** Enough for thousands of servers. */
const MAX_BYTES = 1024 * 1024

/** The path of the file. By the XDG Base Directory Specification, relative paths in its variables are ignored. */
export const file = (): string => {
  const given = process.env["XDG_CONFIG_HOME"] ?? ""
  return path.join(path.isAbsolute(given) ? given : path.join(homeFolder(), ".config"), "slipway/credentials.json")
}

/**
 * The server's address in the form of the file: `https://slipway.example`, with the base path if there is one. `null`: not an http or
 * https address, or one with more than host, port and path.
 */
export const serverOf = (address: string): string | null => {
  if (!URL.canParse(address)) return null
  const { hash, origin, password, pathname, protocol, search, username } = new URL(address)
  if (!/^https?:$/u.test(protocol) || username + password + search + hash !== "") return null
  return `${origin}${pathname.replace(/(?<!\/)\/+$/u, "")}`
}

/** The file or its folder is not safe to use. The message says what to do, and contains no key. */
export class Refused extends Error {}

const mine = ({ uid }: Stats): boolean => process.getuid === undefined || uid === process.getuid()

/** Other users who can write to the folder could replace the file. */
const checkFolder = (folder: string) => {
  const found = lstatSync(folder)
  if (!found.isDirectory()) throw new Refused(`${folder} is no folder of its own; keys are not kept behind a link. Remove it.`)
  if (!mine(found)) throw new Refused(`${folder} belongs to another user. Keys are stored only in a folder of your own.`)
  if ((found.mode & 0o022) !== 0) throw new Refused(`Others can write to ${folder}. Forbid it: chmod 700 ${folder}`)
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** `null`: the text was written by another program. */
const storedIn = (text: string): Stored | null => {
  try {
    const { servers }: Partial<Stored> = JSON.parse(text)
    const isStored = isRecord(servers) && Object.values(servers).every((one) => isRecord(one) && typeof one["key"] === "string")
    return isStored ? { servers } : null
  } catch {
    return null
  }
}

/** The stored keys. Throws {@link Refused}, or the error of the system. */
export const readStored = (at: string): Stored => {
  let handle: number
  try {
    checkFolder(path.dirname(at))
    // Refuses a link, and does not wait for a writer of a pipe.
    handle = openSync(at, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    if (codeOf(error) === "ENOENT") return NOTHING
    if (codeOf(error) === "ELOOP") {
      throw new Refused(`${at} is a link; keys are not read through one. Remove it and sign in again: slipway auth login`)
    }
    throw error
  }
  try {
    // Checks the open file, which cannot be exchanged afterwards.
    const found = fstatSync(handle)
    if (!found.isFile() || found.size > MAX_BYTES) throw new Refused(`${at} is not what slipway auth login writes. Remove it.`)
    if (!mine(found)) throw new Refused(`${at} belongs to another user. Remove it.`)
    if ((found.mode & 0o077) !== 0) {
      throw new Refused(`Others can read the keys in ${at}. Revoke them, if others did, and forbid it: chmod 600 ${at}`)
    }
    const bytes = Buffer.alloc(found.size)
    const text = bytes.subarray(0, readSync(handle, bytes, 0, found.size, 0)).toString()
    const stored = storedIn(text)
    if (stored === null) throw new Refused(`${at} is not what slipway auth login writes. Remove it and sign in again.`)
    return stored
  } finally {
    closeSync(handle)
  }
}

const TAKEN = (lock: string) =>
  `Another command is writing keys, or was killed while it wrote. Try again; if that does not help, remove ${lock}`

/** Creates a lock file, like git's `.lock`: it becomes the next content, and keeps two processes from changing the file at once. */
const openLock = (lock: string): number => {
  try {
    return openSync(lock, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
  } catch (error) {
    throw codeOf(error) === "EEXIST" ? new Refused(TAKEN(lock)) : error
  }
}

/** Replaces the whole file at once: a reader sees the old or the new content. */
export const change = (at: string, next: (stored: Stored) => Stored) => {
  const folder = path.dirname(at)
  // The mode applies to new folders. Existing folders keep their mode and are checked.
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  checkFolder(folder)
  const lock = `${at}.lock`
  const handle = openLock(lock)
  try {
    try {
      const text = `${JSON.stringify(next(readStored(at)), null, 2)}\n`
      // The umask may have removed permissions.
      fchmodSync(handle, 0o600)
      writeSync(handle, text)
      fsyncSync(handle)
    } finally {
      closeSync(handle)
    }
    renameSync(lock, at)
  } catch (error) {
    rmSync(lock, { force: true })
    throw error
  }
}

/** The stored key for the server, in the form of {@link serverOf}. Throws {@link Refused} with what to do about the file. */
export const find = (server: string): string | undefined => {
  const at = file()
  try {
    const { servers } = readStored(at)
    return Object.hasOwn(servers, server) ? servers[server]?.key : undefined
  } catch (error) {
    throw refusalOf(at, error)
  }
}

/** The failure with what to do. */
export const refusalOf = (at: string, error: unknown): Refused =>
  error instanceof Refused
    ? error
    : new Refused(`${at} cannot be used: ${error instanceof Error && "code" in error ? String(error.code) : "it is damaged"}.`)
