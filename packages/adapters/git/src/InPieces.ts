/** Long work on this thread, in pieces that let other work run in between. */
import { Effect } from "effect"

/** The number of items handled in one go: a few milliseconds. */
export const AT_ONCE = 500

/** Calls `look` with each value, until it answers `false`. Other work runs after every {@link AT_ONCE} values. */
export const inPieces = Effect.fnUntraced(function*<A>(values: Iterable<A>, look: (value: A) => boolean | void) {
  let done = 0
  for (const value of values) {
    if (look(value) === false) return
    if (++done % AT_ONCE === 0) yield* Effect.yieldNow
  }
})
