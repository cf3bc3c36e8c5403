/** Waits for the program that makes a box to say that it is made. */
import { type BoxProcess, HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect } from "effect"

/** The longest time, on a busy machine. */
const WITHIN_MILLIS = 30_000
/** The pause between two looks. */
const PAUSE_MILLIS = 2

/**
 * Answers the first value of `look` that is not `undefined`. `program`: its name in errors. `isPassing`: whether a retry may help after
 * this error output. Fails if the box ends before.
 */
export const untilBoxReady = Effect.fnUntraced(function*<A>(boxed: BoxProcess, { isPassing, look, program }: {
  readonly look: Effect.Effect<A | undefined>
  readonly program: string
  readonly isPassing: (complaint: string) => boolean
}) {
  const made = Effect.gen(function*() {
    for (let waited = 0; waited < WITHIN_MILLIS; waited += PAUSE_MILLIS) {
      const said = yield* look
      if (said !== undefined) return said
      yield* Effect.sleep(PAUSE_MILLIS)
    }
    return yield* new HostError({ operation: "spawn", detail: "The box was not made in time.", retryable: true })
  })
  const ended = Effect.gen(function*() {
    yield* boxed.exited
    // It may have been quicker than the look.
    const said = yield* look
    if (said !== undefined) return said
    const complaint = (yield* boxed.stderrTail).trim()
    return yield* new HostError({
      operation: "spawn",
      detail: `The box could not be made: ${complaint.slice(-300) || `${program} says nothing of it`}.`,
      retryable: isPassing(complaint)
    })
  })
  return yield* Effect.raceFirst(made, ended)
})
