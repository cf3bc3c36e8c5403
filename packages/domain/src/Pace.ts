/** Keeps work that somebody hostile can ask for from taking all of a process's time. */
import { Clock, Effect } from "effect"

const SECOND_MILLIS = 1000

/**
 * Lets `perSecond` of something through in each second, at once if it comes at once; whoever goes beyond waits. More than a
 * second's worth in one piece is let through and waited for afterwards.
 */
export const make = (perSecond: number): (amount: number) => Effect.Effect<void> => {
  let began = Number.NEGATIVE_INFINITY
  let used = 0
  /** What is left of the present second, in milliseconds; a new one begins when it is over. */
  const look = Effect.map(Clock.currentTimeMillis, (now) => {
    const seconds = Math.floor((now - began) / SECOND_MILLIS)
    if (seconds >= 1) {
      used = Math.max(0, used - seconds * perSecond)
      began = now
    }
    return began + SECOND_MILLIS - now
  })
  return Effect.fnUntraced(function*(amount: number) {
    let left = yield* look
    used += amount
    while (used > perSecond) {
      yield* Effect.sleep(left)
      left = yield* look
    }
  })
}
