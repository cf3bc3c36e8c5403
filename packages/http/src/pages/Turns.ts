/** Long work on a page, in pieces: between them, whatever else waits in this process has its turn. */
import { Effect } from "effect"

/** What all long work together takes of one turn of the event loop, but for the end of a slice. */
const SHARE_MILLIS = 10

/** Who waits to go on, in order: however many pages are made at once, a turn of the loop is not theirs alone. */
const waiting = new Set<() => void>()

let isDue = false

const advance = () => {
  const end = performance.now() + SHARE_MILLIS
  // Who waits again meanwhile is not among them.
  for (const goOn of [...waiting]) {
    waiting.delete(goOn)
    goOn()
    if (performance.now() >= end) break
  }
  isDue = waiting.size > 0
  if (isDue) setImmediate(advance)
}

/** Goes on in the next turn of the event loop that has time for it. */
export const next: Effect.Effect<void> = Effect.callback<void>((resume) => {
  const goOn = () => resume(Effect.void)
  waiting.add(goOn)
  if (!isDue) setImmediate(advance)
  isDue = true
  return Effect.sync(() => void waiting.delete(goOn))
})

/** Work that says after each of its steps how many characters that was about. */
export type Steps<A> = Generator<number, A, void>

/**
 * Characters that are worked on before others have their turn. The worst of them take 2 µs each where code runs for the first time on a
 * busy machine (2026-11-23): 20 ms of the 50 that a request may hold the event loop.
 */
export const SLICE = 8 * 1024

/** Does the work, and gives way to others whenever it was about {@link SLICE} characters. */
export const run = <A>(steps: Steps<A>): Effect.Effect<A> => {
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

/** Does the work in one go: for little of it. */
export const atOnce = <A>(steps: Steps<A>): A => {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}
