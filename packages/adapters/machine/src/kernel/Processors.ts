/**
 * Which of the machine's processors each sandbox runs on: as many as it may use, so that its programs start as many workers as there is
 * room for. What they may take is limited by the kernel's groups, not by this.
 */
import { readFileSync } from "node:fs"

export interface Processors {
  /**
   * Those of a sandbox from now on, as `taskset` and Docker take them, such as `0,3`: those that the fewest others have. `null`: all
   * that there are.
   */
  take(sandbox: string): string | null
  release(sandbox: string): void
}

/** Numbers of a list of the kernel's, such as `0-3,8`. */
export const parse = (list: string): ReadonlyArray<number> =>
  list.trim().split(",").flatMap((range) => {
    const [first, last] = range.split("-").map(Number)
    return first === undefined || !Number.isInteger(first) || range.trim() === ""
      ? []
      : Array.from({ length: (last ?? first) - first + 1 }, (_, i) => first + i)
  })

/** Those that this process may run on: a machine may give it others while it runs. None where there is no such kernel. */
const own = (): ReadonlyArray<number> => {
  try {
    return parse(/^Cpus_allowed_list:\s*(\S+)/mu.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "")
  } catch {
    return []
  }
}

/** `cpus`: how many a sandbox may use; of a part of one it gets a whole. `start`: the first to be given. */
export const make = (cpus: number, available: () => ReadonlyArray<number> = own, start = Math.floor(Math.random() * 1024)): Processors => {
  const count = Math.max(1, Math.ceil(cpus))
  const taken = new Map<string, ReadonlyArray<number>>()
  // Among equals, start after the ones given last. Otherwise the first ones would get all boxes that start one by one.
  let next = start
  return {
    take: (sandbox) => {
      const there = available()
      if (there.length <= count) {
        taken.delete(sandbox)
        return null
      }
      const before = taken.get(sandbox)
      if (before?.every((processor) => there.includes(processor)) === true) return before.join(",")
      taken.delete(sandbox)
      const load = new Map<number, number>()
      for (const processor of Array.from(taken.values()).flat()) load.set(processor, (load.get(processor) ?? 0) + 1)
      const turned = there.map((_, i) => there[(next + i) % there.length] ?? 0)
      const chosen = turned.sort((a, b) => (load.get(a) ?? 0) - (load.get(b) ?? 0)).slice(0, count).sort((a, b) => a - b)
      next += count
      taken.set(sandbox, chosen)
      return chosen.join(",")
    },
    release: (sandbox) => {
      taken.delete(sandbox)
    }
  }
}
