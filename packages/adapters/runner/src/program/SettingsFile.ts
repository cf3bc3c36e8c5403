/** Reads the settings of a runner from one file of JSON, which holds the runner's private key. */
import { closeSync, fstatSync, openSync, readFileSync } from "node:fs"
import { isAbsolute } from "node:path"
import type { Identity } from "../wire/Identity.ts"
import type { Address, SandboxUser, Settings, Way } from "../wire/RunnerSettings.ts"
import { isCount } from "../wire/Wire.ts"
import { MARKS } from "./SandboxUser.ts"

const DEFAULT_SILENCE_MILLIS = 30_000
const DEFAULT_BEAT_MILLIS = 5000

type Fields = Readonly<Record<string, unknown>>

const fieldsOf = (value: unknown, name: string): Fields => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`${name} is no object`)
  return { ...value }
}

const textOf = (fields: Fields, name: string): string => {
  const value = fields[name]
  if (typeof value !== "string" || value === "") throw new Error(`${name} is no text`)
  return value
}

const countOf = (fields: Fields, name: string, most: number, otherwise?: number): number => {
  const value = fields[name] ?? otherwise
  if (!isCount(value) || value > most) throw new Error(`${name} is no number from 0 to ${most}`)
  return value
}

const pathOf = (fields: Fields, name: string): string => {
  const path = textOf(fields, name)
  if (!isAbsolute(path)) throw new Error(`${name} is no absolute path`)
  return path
}

const pathsOf = (value: unknown): ReadonlyArray<string> => {
  const isPath = (path: unknown): path is string => typeof path === "string" && isAbsolute(path)
  if (!Array.isArray(value) || value.length > 16 || !value.every(isPath)) throw new Error("folders is no list of at most 16 absolute paths")
  return value
}

const PORTS = 65_535
const IDS = 2 ** 32 - 2
const DAY_MILLIS = 86_400_000

const decodeWay = (value: unknown): Way => {
  const fields = fieldsOf(value, "a way")
  const name = textOf(fields, "name")
  if (!/^[a-z][a-z\d-]{0,31}$/u.test(name)) throw new Error("a way has an invalid name")
  return { name, port: countOf(fields, "port", PORTS) }
}

const portOf = (fields: Fields) => ({ host: textOf(fields, "host"), port: countOf(fields, "port", PORTS) })

const listenOf = (fields: Fields): Address => fields["path"] === undefined ? portOf(fields) : { path: pathOf(fields, "path") }

const identityOf = (fields: Fields): Identity => {
  const identity = fieldsOf(fields["identity"], "identity")
  return {
    privateKey: textOf(identity, "privateKey"),
    certificate: textOf(identity, "certificate"),
    peer: textOf(identity, "peer")
  }
}

const userOf = (fields: Fields): SandboxUser => ({
  uid: countOf(fields, "uid", IDS),
  gid: countOf(fields, "gid", IDS),
  marks: fields["marks"] === undefined ? undefined : countOf(fields, "marks", IDS - MARKS)
})

/** Throws with what is wrong, which never quotes the key. */
const decode = (value: unknown): Settings => {
  const fields = fieldsOf(value, "the settings")
  const listen = fieldsOf(fields["listen"], "listen")
  const user = fields["user"] === undefined ? undefined : fieldsOf(fields["user"], "user")
  const ways = fields["ways"] ?? []
  if (!Array.isArray(ways) || ways.length > 16) throw new Error("ways is no list of at most 16")
  return {
    listen: listenOf(listen),
    tree: pathOf(fields, "tree"),
    home: fields["home"] === undefined ? undefined : pathOf(fields, "home"),
    folders: pathsOf(fields["folders"] ?? []),
    state: pathOf(fields, "state"),
    identity: identityOf(fields),
    user: user && userOf(user),
    ways: ways.map(decodeWay),
    silenceMillis: countOf(fields, "silenceMillis", DAY_MILLIS, DEFAULT_SILENCE_MILLIS),
    beatMillis: countOf(fields, "beatMillis", DAY_MILLIS, DEFAULT_BEAT_MILLIS)
  }
}

/** Reads them from a file of mode 0600 or 0400, or through a descriptor (`/dev/fd/3`). Throws with what is wrong. */
export const read = (path: string): Settings => {
  const fd = openSync(path, "r")
  try {
    const stats = fstatSync(fd)
    if (stats.isFile() && (stats.mode & 0o077) !== 0) throw new Error("others may read the settings: their mode has to be 0600")
    const text = readFileSync(fd, "utf8")
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      // The parser's own words quote what it read.
      throw new Error("the settings are no JSON")
    }
    return decode(value)
  } finally {
    closeSync(fd)
  }
}
