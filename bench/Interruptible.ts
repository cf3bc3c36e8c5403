/** Runs an effect so that SIGINT and SIGTERM end it with all that it has to end: services, their databases, folders, mounts. */
import { Effect } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import * as Waiting from "./Waiting.ts"

const running = new Set<AbortController>()

export const run = async <A, E>(self: Effect.Effect<A, E>): Promise<A> => {
  const stopped = new AbortController()
  const stop = () => stopped.abort()
  running.add(stopped)
  process.once("SIGINT", stop).once("SIGTERM", stop)
  try {
    return await Effect.runPromise(self, { signal: stopped.signal })
  } finally {
    process.off("SIGINT", stop).off("SIGTERM", stop)
    running.delete(stopped)
  }
}

/** How long what is given up has to end. */
const ENDING_MILLIS = 30_000

/** The work, which is given up after `seconds`: what {@link run} began for it ends. */
export const within = async <A>(seconds: number, what: () => string, work: () => Promise<A>): Promise<A> => {
  const begun = work()
  try {
    return await Waiting.within(seconds, what, begun)
  } catch (error) {
    for (const each of running) each.abort()
    await Promise.race([begun.then(() => {}, () => {}), sleep(ENDING_MILLIS, undefined, { ref: false })])
    throw error
  }
}
