/** Steps for people: the running step, then its result and duration. */
import { Clock, Effect, Fiber, Schedule } from "effect"
import { styleText } from "node:util"

type Style = Parameters<typeof styleText>[0]

/** Colours only on a terminal, and not if NO_COLOR is set. */
const paint = (style: Style, text: string) => styleText(style, text, { stream: process.stdout })

const write = (text: string) => Effect.sync(() => process.stdout.write(text))
const seconds = (millis: number) => `${(millis / 1000).toFixed(2)} s`
const SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
const LABEL_WIDTH = 38

const line = (mark: string, label: string, detail: string, millis: number) =>
  `${mark} ${label.padEnd(LABEL_WIDTH)} ${paint("dim", seconds(millis).padStart(7))}${detail === "" ? "" : `  ${detail}`}\n`

/** Runs one step. `detail` describes its result in a few words. On a terminal the line is updated meanwhile. */
export const step = <A, E, R>(label: string, work: Effect.Effect<A, E, R>, detail: (result: A) => string = () => "") =>
  Effect.gen(function*() {
    const started = yield* Clock.currentTimeMillis
    const elapsed = Effect.map(Clock.currentTimeMillis, (now) => now - started)
    const live = process.stdout.isTTY
    let turn = 0
    const spin = Effect.flatMap(
      elapsed,
      (millis) => write(`\r${line(paint("cyan", SPINNER.charAt(turn++ % SPINNER.length)), label, "", millis).trimEnd()}`)
    )
    const spinner = live ? yield* Effect.forkChild(Effect.repeat(spin, Schedule.spaced("80 millis"))) : undefined
    const end = (mark: string, text: string) =>
      Effect.gen(function*() {
        if (spinner !== undefined) yield* Fiber.interrupt(spinner)
        yield* write(`${live ? "\r\u001b[2K" : ""}${line(mark, label, text, yield* elapsed)}`)
      })
    return yield* work.pipe(
      Effect.tap((result) => end(paint("green", "✓"), detail(result))),
      Effect.tapError(() => end(paint("red", "✗"), ""))
    )
  })

/** A line below the running step. */
export const note = (text: string): Effect.Effect<void> =>
  Effect.asVoid(write(`${process.stdout.isTTY ? "\r\u001b[2K" : ""}  ${paint("dim", text)}\n`))

/** Milliseconds between the progress notes of a long step. */
const EVERY = 5000

/** Makes a function that reports the progress of a long step, at most every few seconds. */
export const progress = Effect.map(Clock.currentTimeMillis, (began) => {
  let told = began
  return (text: () => string): Effect.Effect<void> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      if (now - told < EVERY) return Effect.void
      told = now
      return note(text())
    })
})

export const heading = (text: string): Effect.Effect<void> => Effect.asVoid(write(`\n${paint("bold", text)}\n\n`))
