/**
 * Looks at pull requests whose sandboxes take feedback (docs/decisions/24). Any number of workers may do it: each look is claimed, and
 * repeated by another worker if this one dies.
 */
import { FeedbackWatches } from "@slipway/domain/publishing/ports/FeedbackWatches"
import { Feedback } from "@slipway/domain/publishing/usecases/Feedback"
import { Cause, DateTime, Effect, Layer } from "effect"
import { Timing } from "../shared/Timing.ts"

/** Looks of one worker at a time, which mostly wait for the source host. */
const CONCURRENCY = 8

/** Looks at all that is due. */
export const followFeedback = Effect.fn("FollowFeedback.followFeedback")(function*() {
  const watches = yield* FeedbackWatches
  const feedback = yield* Feedback
  for (;;) {
    const taken = yield* watches.take(yield* DateTime.now, CONCURRENCY)
    yield* Effect.forEach(
      taken,
      (watch) =>
        feedback.look(watch).pipe(
          // The claim ends by itself, and the look is repeated then.
          Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logWarning("looking at feedback failed", cause)),
          Effect.ignoreCause,
          Effect.annotateLogs({ sandboxId: watch.sandboxId })
        ),
      { concurrency: CONCURRENCY, discard: true }
    )
    if (taken.length < CONCURRENCY) return
  }
})

/** Looks regularly until the scope closes. */
export const layer = Layer.effectDiscard(Effect.gen(function*() {
  const { tick } = yield* Timing
  const round = followFeedback().pipe(
    Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logWarning("looking for feedback failed", cause)),
    Effect.ignoreCause
  )
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(round, Effect.sleep(tick))))
}))
