/**
 * Finds the service that a command works on. Only `serve` and `demo` make data; every other command works on existing data. The order
 * is: the service in the settings, the `.slipway` of this folder or a parent folder, the only running service.
 *
 * A running service writes a file in its user's state folder, so that commands find it from anywhere. Loads no Effect, because commands
 * that only ask a server need none.
 */
import { codeOf, ifEnded } from "@slipway/domain/files/rules/SystemError"
import { readdir, readFile, rm, stat } from "node:fs/promises"
import path from "node:path"
import * as Defaults from "../settings/Defaults.ts"
import { homeFolder } from "./storage/HomeFolder.ts"

/** The file of a running service. */
export interface Running {
  readonly pid: number
  /** The start of the process in the kernel's count; `null` if unknown. It distinguishes the process from a later one with the same id. */
  readonly began: string | null
  readonly dataDir: string
  /** `null`: it serves no requests. */
  readonly publicUrl: string | null
  /** Whether its database is the one in its data folder. */
  readonly embedded: boolean
}

/** The folder with the files of running services. */
export const folder = (): string => path.join(process.env["XDG_STATE_HOME"] || path.join(homeFolder(), ".local/state"), "slipway/services")

/** Field 22 of the process's `stat`, after its name in parentheses: see proc(5). `undefined`: no such process. */
export const beginningOf = async (pid: number): Promise<string | null | undefined> => {
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

const isRunning = (value: unknown): value is Running => {
  if (typeof value !== "object" || value === null) return false
  const { began, dataDir, embedded, pid, publicUrl } = value as Readonly<Record<keyof Running, unknown>>
  const isText = (one: unknown) => one === null || typeof one === "string"
  return Number.isInteger(pid) && isText(began) && typeof dataDir === "string" && isText(publicUrl) && typeof embedded === "boolean"
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The services that this user runs now. Files of ended processes are removed. */
export const running = async (): Promise<ReadonlyArray<Running>> => {
  const at = folder()
  const found = await Promise.allSettled((await readdir(at).catch(() => [])).map(async (name) => {
    const file = path.join(at, name)
    const one = parsed(await readFile(file, "utf8"))
    if (isRunning(one) && await beginningOf(one.pid) === one.began) return one
    await rm(file, { force: true })
    return null
  }))
  // Unreadable files are left alone.
  return found.flatMap((one) => one.status === "fulfilled" && one.value !== null ? [one.value] : [])
}

/** Whether the folder has an embedded database, running or stopped. */
const hasDatabase = (dataDir: string) =>
  stat(path.join(dataDir, "postgres/cluster")).then(() => true, (error: unknown) => codeOf(error) === "EACCES")

/** `.slipway` of this folder or the nearest one above it. */
const nearest = async (dataDir: string) => {
  const name = path.basename(dataDir)
  for (let at = path.dirname(dataDir);; at = path.dirname(at)) {
    if (await hasDatabase(path.join(at, name))) return path.join(at, name)
    if (at === path.dirname(at)) return null
  }
}

const named = ({ dataDir, embedded, pid, publicUrl }: Running): string => {
  const setting = embedded ? `${Defaults.dataDir.name}=${dataDir}` : Defaults.databaseUrl.name
  return `process ${pid}${publicUrl === null ? "" : ` at ${publicUrl}`} with ${setting}`
}

/** The data folder of the settings, for a service with an embedded database. */
export interface Configured {
  /** Absolute. */
  readonly dataDir: string
  /** Set explicitly; otherwise it is the default in the working directory. */
  readonly dataDirIsSet: boolean
}

/** The data folder of the service that a command addresses; otherwise the reason why none was found. */
export const findFolder = async (
  { dataDir, dataDirIsSet }: Configured
): Promise<{ readonly dataDir: string } | { readonly problem: string }> => {
  const others = await running()
  if (others.some((one) => one.embedded && one.dataDir === dataDir)) return { dataDir }
  const own = dataDirIsSet ? await hasDatabase(dataDir) ? dataDir : null : await nearest(dataDir)
  if (own !== null) return { dataDir: own }
  const [first, ...more] = dataDirIsSet ? [] : others
  if (first !== undefined && more.length === 0 && first.embedded) return { dataDir: first.dataDir }
  const lacking = dataDirIsSet
    ? `there is no Slipway in ${dataDir} (${Defaults.dataDir.name}), and this command makes none.`
    : `there is no Slipway in ${path.dirname(dataDir)} or above it, and this command makes none.`
  const shared = others.filter(({ embedded }) => !embedded)
  const [folder, database] = [Defaults.dataDir.name, Defaults.databaseUrl.name]
  const next = others.length === 0
    ? `Start one with "slipway serve" (npm start), ` +
      `or set ${folder} to the data folder of the service, or ${database} to its database.`
    : others.length === 1 && shared.length === 1
    ? `One runs as ${others.map(named).join()}: set ${database} to what it has.`
    : `Set ${shared.length === 0 ? folder : `${folder} or ${database}`} to one of those that run: ${others.map(named).join("; ")}.`
  return { problem: `${lacking} ${next}` }
}

/** The address of the service that a command means, if this user runs it with an embedded database; `null`: unknown. */
export const addressOf = async (configured: Configured): Promise<string | null> => {
  const found = await findFolder(configured)
  if ("problem" in found) return null
  return (await running()).find((one) => one.embedded && one.dataDir === found.dataDir)?.publicUrl ?? null
}

/** The same by the variables of the environment, without the other settings. */
export const addressHere = async (): Promise<string | null> => {
  if ((process.env[Defaults.databaseUrl.name] ?? "") !== "") return null
  const given = process.env[Defaults.dataDir.name] ?? ""
  return await addressOf({ dataDir: path.resolve(given === "" ? Defaults.dataDir.default : given), dataDirIsSet: given !== "" })
}
