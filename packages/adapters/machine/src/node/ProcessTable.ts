/**
 * Finds and ends processes through `/proc`, by a variable in their environment. A process that leaves its parent, its group or its session
 * keeps its environment; a process that clears its environment keeps its parent or its session. Only a process that does all of it at once
 * gets away, which a box without isolation cannot prevent. Without `/proc` nothing is found. Dies if `/proc` exists and cannot be read: the
 * processes may still run then.
 */
import { codeOf, ifAbsent, ifEnded } from "@slipway/domain/files/rules/SystemError"
import { Duration, Effect } from "effect"
import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs"

interface Entry {
  readonly pid: number
  readonly parent: number
  readonly session: number
  readonly mark: string | undefined
}

const KTHREADD = 2

/** Enough for the kernel to end a killed process. */
const PAUSE_MILLIS = 5

/** `undefined`: it has ended. */
export const parentOf = (pid: number): number | undefined => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1])
  } catch (error) {
    return ifEnded(undefined)(error)
  }
}

/** The most bytes of one environment in the first read, with a NUL before it. Larger ones are read whole. */
const environment = Buffer.alloc(65_536)

const environmentOf = (pid: number): Buffer => {
  const path = `/proc/${pid}/environ`
  const file = openSync(path, "r")
  try {
    const size = readSync(file, environment, 1, environment.length - 1, 0)
    return size < environment.length - 1 ? environment.subarray(0, size + 1) : Buffer.concat([Buffer.alloc(1), readFileSync(path)])
  } finally {
    closeSync(file)
  }
}

/** The answer for another user's process. */
const CLOSED: ReadonlyArray<unknown> = ["EACCES", "EPERM"]

/** The value of the variable; `undefined`: it is unset, or the process belongs to another user and is not ours. */
const markOf = (pid: number, variable: string): string | undefined => {
  try {
    const all = environmentOf(pid)
    const at = all.indexOf(`\0${variable}=`)
    if (at < 0) return undefined
    const from = at + variable.length + 2
    const end = all.indexOf(0, from)
    return all.toString("utf8", from, end < 0 ? all.length : end)
  } catch (error) {
    return CLOSED.includes(codeOf(error)) ? undefined : ifEnded(undefined)(error)
  }
}

const read = (pid: number, variable: string): Entry | undefined => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
    // The name in parentheses may itself hold parentheses and spaces.
    const [state, parent, , session] = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    // A zombie holds nothing and goes when its parent looks.
    if (state === "Z" || state === "X" || Number(parent) === KTHREADD) return undefined
    return { pid, parent: Number(parent), session: Number(session), mark: markOf(pid, variable) }
  } catch (error) {
    return ifEnded(undefined)(error)
  }
}

const pids = (): ReadonlyArray<number> => {
  try {
    return readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).map(Number)
  } catch (error) {
    return ifAbsent([])(error)
  }
}

/** Reads synchronously, so that little can change between two rows: about 25 µs a process (two busy processors, 2026-11-24). */
const scan = (variable: string): ReadonlyArray<Entry> => pids().flatMap((pid) => read(pid, variable) ?? [])

/** Values of the variable among all running processes. */
export const marks = (variable: string): Effect.Effect<ReadonlySet<string>> =>
  Effect.sync(() => new Set(pids().flatMap((pid) => markOf(pid, variable) ?? [])))

/** Nearly always there is none, which environments alone say, in half the time of a scan. */
const isThere = (variable: string, matches: (mark: string) => boolean): boolean =>
  pids().some((pid) => {
    const mark = pid === process.pid ? undefined : markOf(pid, variable)
    return mark !== undefined && matches(mark)
  })

/** Processes with a matching mark, their descendants, and the members of their sessions, which `sessions` collects. */
const find = (variable: string, matches: (mark: string) => boolean, sessions: Set<number>): ReadonlyArray<number> => {
  if (sessions.size === 0 && !isThere(variable, matches)) return []
  const table = scan(variable).filter(({ pid }) => pid !== process.pid)
  const found = new Set<Entry>()
  const add = (entry: Entry) => {
    if (found.has(entry)) return
    found.add(entry)
    sessions.add(entry.session)
    for (const other of table) {
      if (other.parent === entry.pid || other.session === entry.session) add(other)
    }
  }
  for (const entry of table) {
    if (sessions.has(entry.session) || (entry.mark !== undefined && matches(entry.mark))) add(entry)
  }
  return [...found].map(({ pid }) => pid)
}

/** The processes that {@link killAll} would kill now. */
export const pidsOf = (variable: string, matches: (mark: string) => boolean): Effect.Effect<ReadonlyArray<number>> =>
  Effect.sync(() => find(variable, matches, new Set()))

const kill = (pid: number) => {
  try {
    process.kill(pid, "SIGKILL")
  } catch {
    // Ended meanwhile.
  }
}

/**
 * Kills every process that {@link find} names, again and again until there is none: between a look and a kill new ones
 * may start. Answers the ones that are still there after `within`.
 */
export const killAll = (options: {
  readonly variable: string
  readonly matches: (mark: string) => boolean
  readonly within: Duration.Input
}): Effect.Effect<ReadonlyArray<number>> =>
  Effect.gen(function*() {
    // Kept from look to look: what was started just before its marked parent was killed is known by its session alone.
    const sessions = new Set<number>()
    let left = find(options.variable, options.matches, sessions)
    const rounds = Math.ceil(Duration.toMillis(options.within) / PAUSE_MILLIS)
    for (let round = 0; left.length > 0 && round < rounds; round++) {
      left.forEach(kill)
      yield* Effect.sleep(PAUSE_MILLIS)
      left = find(options.variable, options.matches, sessions)
    }
    return left
  })
