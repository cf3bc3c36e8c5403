/** Runs an effect so that SIGINT and SIGTERM end it with all that it has to end: services, their databases, folders, mounts. */
import { Effect } from "effect"

export const run = async <A, E>(self: Effect.Effect<A, E>): Promise<A> => {
  const stopped = new AbortController()
  const stop = () => stopped.abort()
  process.once("SIGINT", stop).once("SIGTERM", stop)
  try {
    return await Effect.runPromise(self, { signal: stopped.signal })
  } finally {
    process.off("SIGINT", stop).off("SIGTERM", stop)
  }
}
