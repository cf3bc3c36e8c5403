import { readFileSync } from "node:fs"

/** How many files and sockets this process may have open. Infinite where the system does not tell (only Linux does). */
export const descriptorLimit = (): number => {
  try {
    const [, limit] = /^Max open files +(\d+)/mu.exec(readFileSync("/proc/self/limits", "utf8")) ?? []
    return limit === undefined ? Number.POSITIVE_INFINITY : Number(limit)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
