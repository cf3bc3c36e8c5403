/**
 * Admits requests that arrive together one at a time, each in its own turn of the event loop. Their work is then spread as well, so
 * that other tasks of this process wait for one request instead of all of them.
 */
import type { Boots } from "@slipway/domain/sandbox/ports/BootsHere"
import { Effect } from "effect"

/** Milliseconds between two checks of whether the queue is still held. */
const LOOK_AGAIN = 5

/** This many requests at once hardly slow a boot down, so they are never held. */
const FEW = 4

/** Milliseconds that a worker takes at most to begin what it is asked for, if it begins at all. */
const UNTIL_BEGUN = 200

/** Milliseconds that one burst is held at most: a boot that has two processors to itself takes 300 to 400 (bench fleet, 2026-11-23). */
const LONGEST = 500

/** Whether the queue is held while `waiting` requests wait. */
type IsHeld = (waiting: number) => boolean

/** Waits for admission: not at all if no other request was admitted in this turn. First come, first served. */
export const make = (isHeld: IsHeld = () => false): Effect.Effect<void> => {
  const waiting = new Set<() => void>()
  let isFree = true
  const next = () => {
    const [first] = waiting
    if (first === undefined) {
      isFree = true
      return
    }
    if (isHeld(waiting.size)) return void setTimeout(next, LOOK_AGAIN)
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

/**
 * Holds a burst of creations back behind the boot that its first ones ask for, which would wait until all of them have begun. `now`:
 * milliseconds.
 */
export const behindFirstBoot = (boots: () => Boots, now: () => number): IsHeld => {
  let since: number | null = null
  return (waiting) => {
    if (waiting <= FEW) {
      since = null
      return false
    }
    since ??= now()
    const limits = { none: UNTIL_BEGUN, first: LONGEST, more: 0 }
    return now() - since < limits[boots()]
  }
}
