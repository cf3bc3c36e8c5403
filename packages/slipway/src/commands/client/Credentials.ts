/**
 * The API keys that a person has for servers, by address: one file in the user's configuration folder. `slipway auth login` writes it,
 * and commands that talk to a server read it. Only the user may read or replace the file.
 */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
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
import { homeFolder } from "../../service/storage/HomeFolder.ts"

/** The file or its folder is not safe to use, or cannot be read or written. Says what to do, and contains no key. */
export class UnusableCredentials extends Schema.TaggedError<UnusableCredentials>()("UnusableCredentials", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

const Stored = Schema.Struct({ servers: Schema.Record(Schema.String, Schema.Struct({ key: Schema.String })) })
type Stored = typeof Stored.Type
const NOTHING: Stored = { servers: {} }
/** Enough for thousands of servers. */
const MAX_BYTES = 1024 * 1024

/** The path of the file. By the XDG Base Directory Specification, relative paths in its variables are ignored. */
export const file = (): string => {
  const given = process.env["XDG_CONFIG_HOME"] ?? ""
  return path.join(path.isAbsolute(given) ? given : path.join(homeFolder(), ".config"), "slipway/credentials.json")
}

/**
 * The server's address in the form of the file: `https://slipway.example`, with the base path if there is one. `none`: not an http or
 * https address, or one with more than host, port and path.
 */
export const serverOf = (address: string): Option.Option<string> => {
  if (!URL.canParse(address)) return Option.none()
  const { hash, origin, password, pathname, protocol, search, username } = new URL(address)
  if (!/^https?:$/u.test(protocol) || username + password + search + hash !== "") return Option.none()
  return Option.some(`${origin}${pathname.replace(/(?<!\/)\/+$/u, "")}`)
}

/** Thrown only within this module. */
class Refused extends Error {}

const mine = ({ uid }: Stats): boolean => process.getuid === undefined || uid === process.getuid()

/** Other users who can write to the folder could replace the file. */
const checkFolder = (folder: string) => {
  const found = lstatSync(folder)
  if (!found.isDirectory()) throw new Refused(`${folder} is no folder of its own; keys are not kept behind a link. Remove it.`)
  if (!mine(found)) throw new Refused(`${folder} belongs to another user. Keys are stored only in a folder of your own.`)
  if ((found.mode & 0o022) !== 0) throw new Refused(`Others can write to ${folder}. Forbid it: chmod 700 ${folder}`)
}

const readStored = (at: string): Stored => {
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
    const stored = Schema.decodeUnknownOption(Schema.fromJsonString(Stored))(text)
    if (Option.isNone(stored)) throw new Refused(`${at} is not what slipway auth login writes. Remove it and sign in again.`)
    return stored.value
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
const change = (at: string, next: (stored: Stored) => Stored) => {
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

const attempt = <A>(at: string, work: () => A) =>
  Effect.try({
    try: work,
    catch: (error) =>
      new UnusableCredentials({
        detail: error instanceof Refused
          ? error.message
          : `${at} cannot be used: ${error instanceof Error && "code" in error ? String(error.code) : "it is damaged"}.`
      })
  })

/** The stored key for the server. `server`: from {@link serverOf}. */
export const find = Effect.fn("Credentials.find")(function*(server: string) {
  const at = file()
  const { servers } = yield* attempt(at, () => readStored(at))
  return Option.map(Option.fromUndefinedOr(Object.hasOwn(servers, server) ? servers[server] : undefined), ({ key }) => Redacted.make(key))
})

/** The servers with a stored key. */
export const servers = Effect.suspend(() => {
  const at = file()
  return Effect.map(attempt(at, () => readStored(at)), (stored) => Object.keys(stored.servers).sort())
})

/** Stores the key for the server and replaces the previous one. Safe to repeat. */
export const keep = Effect.fn("Credentials.keep")(function*(server: string, key: Redacted.Redacted) {
  const at = file()
  yield* attempt(at, () => change(at, (stored) => ({ servers: { ...stored.servers, [server]: { key: Redacted.value(key) } } })))
})

/** Removes the stored key for the server, and answers whether there was one. The key stays valid until it is revoked at the server. */
export const forget = Effect.fn("Credentials.forget")(function*(server: string) {
  const at = file()
  return yield* attempt(at, () => {
    if (!Object.hasOwn(readStored(at).servers, server)) return false
    change(at, (stored) => ({ servers: Object.fromEntries(Object.entries(stored.servers).filter(([name]) => name !== server)) }))
    return true
  })
})
