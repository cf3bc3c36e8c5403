/** Renders long pages in chunks and yields to the event loop between them, so that other requests do not wait for the whole page. */
import { Effect } from "effect"

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
export const next: Effect.Effect<void> = Effect.callback<void>((resume) => {
  const goOn = () => resume(Effect.void)
  waiting.add(goOn)
  if (!isDue) setImmediate(advance)
  isDue = true
  return Effect.sync(() => void waiting.delete(goOn))
})

/** Work in chunks: yields after each chunk about how many characters that chunk processed. */
export type Chunked<A> = Generator<number, A, void>

/**
 * Characters that are processed before yielding. The slowest take 2 µs each where code runs for the first time on a
 * busy machine (2026-11-23): 20 ms of the 50 that a request may hold the event loop.
 */
export const SLICE = 8 * 1024

/** Does the work, and yields to the event loop after every {@link SLICE} characters or so. */
export const run = <A>(steps: Chunked<A>): Effect.Effect<A> => {
  const slice: Effect.Effect<A> = Effect.suspend(() => {
    for (let characters = 0;;) {
      const step = steps.next()
      if (step.done === true) return Effect.succeed(step.value)
      characters += step.value
      if (characters >= SLICE) return Effect.andThen(next, slice)
    }
  })
  return Effect.suspend(() => waiting.size > 0 ? Effect.andThen(next, slice) : slice)
}

/** Does the work without yielding: for small amounts. */
export const atOnce = <A>(steps: Chunked<A>): A => {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}
