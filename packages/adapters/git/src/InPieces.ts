/** Long work of this process's own, in pieces short enough that nobody notices. */
import { Effect } from "effect"

/** Of what is read, looked at or made that are done in one go: a few milliseconds. */
export const AT_ONCE = 500

/** Does it with each, until it says `false`. Others have this process every {@link AT_ONCE} of them. */
export const inPieces = Effect.fnUntraced(function*<A>(values: Iterable<A>, look: (value: A) => boolean | void) {
  let done = 0
  for (const value of values) {
    if (look(value) === false) return
    if (++done % AT_ONCE === 0) yield* Effect.yieldNow
  }
})
