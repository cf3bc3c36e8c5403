/**
 * Lets many that arrive at once begin one after the other, each in a turn of the event loop of its own. What they go on with is then
 * spread as well, so that whatever else happens in this process waits for one of them and not for all.
 */
import type { Boots } from "@slipway/domain/sandbox/BootsHere"
import { Effect } from "effect"

/** Milliseconds after which those that are held are asked again whether they still are. */
const LOOK_AGAIN = 5

/** So many at once hardly slow a boot down, and are held by none. */
const FEW = 4

/** Milliseconds that a worker takes at most to begin what it is asked for, if it begins at all. */
const UNTIL_BEGUN = 200

/** Milliseconds that those of one burst are held: a boot that has two processors to itself takes 300 to 400 (bench fleet, 2026-11-23). */
const LONGEST = 500

/** Whether as many that wait are to wait on. */
type IsHeld = (waiting: number) => boolean

/** Waits for a turn: for none where nobody else began in this one. First come, first served. */
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
