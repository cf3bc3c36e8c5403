/**
 * Admits requests that arrive together one at a time, each in its own turn of the event loop. Their work is then spread as well, so
 * that other tasks of this process wait for one request instead of all of them.
 */
import { Effect } from "effect"

/** Waits for admission: not at all if no other request was admitted in this turn. First come, first served. */
export const make = (): Effect.Effect<void> => {
  const waiting = new Set<() => void>()
  let isFree = true
  const next = () => {
    const [first] = waiting
    if (first === undefined) {
      isFree = true
      return
    }
    waiting.delete(first)
    setImmediate(next)
    first()
  }
  return Effect.callback<void>((resume) => {
    if (isFree) {
      isFree = false
      setImmediate(next)
      return resume(Effect.void)
    }
    const begin = () => resume(Effect.void)
    waiting.add(begin)
    return Effect.sync(() => {
      waiting.delete(begin)
    })
  })
}
