/**
 * Finds the service that a command works on. Only `serve` and `demo` make data; every other command works on existing data. The order
 * is: the service in the settings, the `.slipway` of this folder or a parent folder, the only running service.
 *
 * A running service writes a file in its user's state folder, so that commands find it from anywhere.
 */
import { codeOf, ifEnded } from "@slipway/domain/files/rules/SystemError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import path from "node:path"
import type { Settings } from "../settings/Settings.ts"
import { settings as storage } from "../settings/Storage.ts"
import { homeFolder } from "./storage/HomeFolder.ts"
import * as TemporaryFolder from "./storage/TemporaryFolder.ts"

/** No service was found, or more than one. Nothing was made. */
export class NoService extends Schema.TaggedError<NoService>()("NoService", { detail: Schema.String }) {
  readonly exitCode = 2
  override get message() {
    return this.detail
  }
}

const Running = Schema.Struct({
  pid: Schema.Int,
  /** The start of the process in the kernel's count; `null` if unknown. It distinguishes the process from a later one with the same id. */
  began: Schema.NullOr(Schema.String),
  dataDir: Schema.String,
  /** `null`: it serves no requests. */
  publicUrl: Schema.NullOr(Schema.String),
  /** Whether its database is the one in its data folder. */
  embedded: Schema.Boolean
})
type Running = typeof Running.Type

const folder = (): string => path.join(process.env["XDG_STATE_HOME"] || path.join(homeFolder(), ".local/state"), "slipway/services")

/** Field 22 of the process's `stat`, after its name in parentheses: see proc(5). `undefined`: no such process. */
const beginningOf = async (pid: number): Promise<string | null | undefined> => {
  if (process.platform === "linux") {
    const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(ifEnded(undefined))
    return text?.slice(text.lastIndexOf(")") + 2).split(" ")[19]
  }
  try {
    process.kill(pid, 0)
    return null
  } catch (error) {
    return codeOf(error) === "EPERM" ? null : undefined
  }
}

const decode = Schema.decodeUnknownOption(Schema.fromJsonString(Running))

/** The services that this user runs now. Files of ended processes are removed. */
const running: Effect.Effect<ReadonlyArray<Running>> = Effect.promise(async () => {
  const at = folder()
  const found = await Promise.allSettled((await readdir(at).catch(() => [])).map(async (name) => {
    const file = path.join(at, name)
    const one = decode(await readFile(file, "utf8"))
    if (one._tag === "Some" && await beginningOf(one.value.pid) === one.value.began) return one.value
    await rm(file, { force: true })
    return null
  }))
  // Unreadable files are left alone.
  return found.flatMap((one) => one.status === "fulfilled" && one.value !== null ? [one.value] : [])
})

/** Lets commands find this process until the scope closes. Without a writable home, they cannot find it. */
export const announce = ({ dataDir, databaseUrl, role }: Pick<Settings, "dataDir" | "databaseUrl" | "role">, publicUrl: string) =>
  Effect.acquireRelease(
    Effect.gen(function*() {
      yield* running
      const file = path.join(folder(), `${process.pid}.json`)
      yield* Effect.tryPromise(async () => {
        const began = await beginningOf(process.pid) ?? null
        const own: Running = {
          pid: process.pid,
          began,
          dataDir,
          publicUrl: role === "worker" ? null : publicUrl,
          embedded: databaseUrl === null
        }
        await mkdir(path.dirname(file), { recursive: true, mode: 0o700 })
        await writeFile(file, JSON.stringify(own), { mode: 0o600 })
      }).pipe(Effect.catch((error) => Effect.logDebug("commands will not find this service by themselves", { error })))
      return file
    }),
    (file) => Effect.promise(() => rm(file, { force: true }).catch(() => {}))
  )

const exists = (at: string) => Effect.promise(() => stat(at).then(() => true, (error: unknown) => codeOf(error) === "EACCES"))

/** Whether the folder has an embedded database, running or stopped. */
const hasDatabase = (dataDir: string) => exists(path.join(dataDir, "postgres/cluster"))

const { dataDir: dataDirSetting, databaseUrl: databaseUrlSetting } = storage

/** `.slipway` of this folder or the nearest one above it. */
const nearest = Effect.fnUntraced(function*(dataDir: string) {
  const name = path.basename(dataDir)
  for (let at = path.dirname(dataDir);; at = path.dirname(at)) {
    if (yield* hasDatabase(path.join(at, name))) return path.join(at, name)
    if (at === path.dirname(at)) return null
  }
})

const named = ({ dataDir, embedded, pid, publicUrl }: Running): string => {
  const setting = embedded ? `${dataDirSetting.name}=${dataDir}` : databaseUrlSetting.name
  return `process ${pid}${publicUrl === null ? "" : ` at ${publicUrl}`} with ${setting}`
}

/** The settings with the data folder of the service that a command means. */
export const find = Effect.fn("RunningServices.find")(function*(settings: Settings) {
  if (settings.databaseUrl !== null) return settings
  const others = yield* running
  const { dataDir, dataDirIsSet } = settings
  if (others.some((one) => one.embedded && one.dataDir === dataDir)) return settings
  const own = dataDirIsSet ? (yield* hasDatabase(dataDir)) ? dataDir : null : yield* nearest(dataDir)
  if (own !== null) return { ...settings, dataDir: own }
  const [first, ...more] = dataDirIsSet ? [] : others
  if (first !== undefined && more.length === 0 && first.embedded) return { ...settings, dataDir: first.dataDir }
  const lacking = dataDirIsSet
    ? `there is no Slipway in ${dataDir} (${dataDirSetting.name}), and this command makes none.`
    : `there is no Slipway in ${path.dirname(dataDir)} or above it, and this command makes none.`
  const shared = others.filter(({ embedded }) => !embedded)
  const [folder, database] = [dataDirSetting.name, databaseUrlSetting.name]
  const next = others.length === 0
    ? `Start one with "slipway serve" (npm start), ` +
      `or set ${folder} to the data folder of the service, or ${database} to its database.`
    : others.length === 1 && shared.length === 1
    ? `One runs as ${others.map(named).join()}: set ${database} to what it has.`
    : `Set ${shared.length === 0 ? folder : `${folder} or ${database}`} to one of those that run: ${others.map(named).join("; ")}.`
  return yield* new NoService({ detail: `${lacking} ${next}` })
})

/** The address of the service that a command works on, if this user runs it; `null`: unknown. */
export const addressOf = Effect.fnUntraced(function*(settings: Settings) {
  const { dataDir, databaseUrl } = yield* find(settings)
  if (databaseUrl !== null) return null
  return (yield* running).find((one) => one.embedded && one.dataDir === dataDir)?.publicUrl ?? null
})

/** For commands without a database: the folder of the service, otherwise the configured one. */
export const findFolder = (settings: Settings): Effect.Effect<Settings> =>
  Effect.catchTag(find(settings), "NoService", () => Effect.succeed(settings))

/**
 * For commands that try out parts of the service. `tried` is the folder for that: in the service's data folder, or a temporary folder
 * if there is no service. `settings` are those of the service.
 */
export const findToTry = Effect.fnUntraced(function*(given: Settings) {
  const service = yield* Effect.option(find(given))
  if (Option.isSome(service)) return { settings: service.value, tried: service.value }
  return { settings: given, tried: { ...given, dataDir: yield* TemporaryFolder.make("try") } }
})
