/** Waiting that ends. */
import type { ChildProcess } from "node:child_process"

/** Waits until a process has ended. A process that never began counts as ended, and a past `exit` is not emitted again. */
export const ended = (child: ChildProcess): Promise<void> =>
  child.exitCode !== null || child.signalCode !== null || child.pid === undefined
    ? Promise.resolve()
    : new Promise((resolve) => child.once("exit", () => resolve()))

/** The work, or after `seconds` an error with what was waited for. */
export const within = async <A>(seconds: number, what: () => string, work: Promise<A>): Promise<A> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what()}: not within ${seconds} s`)), seconds * 1000)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
