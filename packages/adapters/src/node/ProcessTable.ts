/**
 * Finds and ends processes through `/proc`, by a variable in their environment. A process that leaves its parent, its
 * group or its session keeps its environment; one that clears its environment keeps its parent or its session. Only
 * one that does all of it at once gets away, which a box without isolation cannot prevent. Without `/proc` nothing is
 * found.
 */
import { Duration, Effect } from "effect"
import { readdirSync, readFileSync } from "node:fs"

interface Entry {
  readonly pid: number
  readonly parent: number
  readonly session: number
  /** The value of the variable, `undefined` when unset or unreadable. */
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
  } catch {
    return undefined
  }
}

const read = (pid: number, variable: string): Entry | undefined => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
    // The name in parentheses may itself hold parentheses and spaces.
    const [state, parent, , session] = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    // A zombie holds nothing and goes when its parent looks.
    if (state === "Z" || state === "X" || Number(parent) === KTHREADD) return undefined
    let mark: string | undefined
    try {
      const environment = `\0${readFileSync(`/proc/${pid}/environ`, "utf8")}`
      const at = environment.indexOf(`\0${variable}=`)
      if (at >= 0) mark = environment.slice(at + variable.length + 2, environment.indexOf("\0", at + 1))
    } catch {
      // Another user's process: never ours.
    }
    return { pid, parent: Number(parent), session: Number(session), mark }
  } catch {
    return undefined // ended meanwhile
  }
}

/** Reads synchronously, so that little can change between two rows: about 40 µs a process (measured 2026-11). */
const scan = (variable: string): ReadonlyArray<Entry> => {
  try {
    return readdirSync("/proc").flatMap((name) => (/^\d+$/u.test(name) ? (read(Number(name), variable) ?? []) : []))
  } catch {
    return []
  }
}

/** Values of the variable among all running processes. */
export const marks = (variable: string): Effect.Effect<ReadonlySet<string>> =>
  Effect.sync(() => new Set(scan(variable).flatMap(({ mark }) => mark ?? [])))

/** Processes with a matching mark, their descendants, and the members of their sessions, which `sessions` collects. */
const find = (variable: string, matches: (mark: string) => boolean, sessions: Set<number>): ReadonlyArray<number> => {
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
