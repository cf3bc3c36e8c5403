/** Writes pages with pauses, so that other requests do not wait for a whole page. */
import { Effect } from "effect"
import { type Html, type Part, type Steps, written } from "./Html.ts"

/** Milliseconds that one rendering takes before it pauses; the last step may end later. A request may hold the event loop for 50. */
const SLICE_MILLIS = 5

/** Milliseconds that all rendering together takes of one turn of the event loop; the last slice may end later. */
const SHARE_MILLIS = 10

/** Renderings that wait to continue, first come, first served. They share one turn, however many pages are rendered at once. */
const waiting = new Set<() => void>()

let isDue = false

const advance = () => {
  const end = performance.now() + SHARE_MILLIS
  // A copy: a rendering that waits again meanwhile continues in a later turn.
  for (const goOn of [...waiting]) {
    waiting.delete(goOn)
    goOn()
    if (performance.now() >= end) break
  }
  isDue = waiting.size > 0
  if (isDue) setImmediate(advance)
}

/** Continues in the next turn of the event loop that has time left. */
export const pause: Effect.Effect<void> = Effect.callback<void>((resume) => {
  const goOn = () => resume(Effect.void)
  waiting.add(goOn)
  if (!isDue) setImmediate(advance)
  isDue = true
  return Effect.sync(() => void waiting.delete(goOn))
})

/** Does the work, and pauses after every {@link SLICE_MILLIS} of it. */
export const run = <A>(steps: Steps<A>): Effect.Effect<A> => {
  const slice: Effect.Effect<A> = Effect.suspend(() => {
    for (const end = performance.now() + SLICE_MILLIS;;) {
      const step = steps.next()
      if (step.done === true) return Effect.succeed(step.value)
      if (performance.now() >= end) return Effect.andThen(pause, slice)
    }
  })
  return Effect.suspend(() => waiting.size > 0 ? Effect.andThen(pause, slice) : slice)
}

/** The part with everything in it made. */
export const html = (part: Part): Effect.Effect<Html> => Effect.suspend(() => run(written(part)))

/** The part as text. */
export const text = (part: Part): Effect.Effect<string> => Effect.map(html(part), String)
