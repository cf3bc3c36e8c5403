/**
 * Brings the events of feeds to webhooks: one at a time to each endpoint, in order, to many endpoints at once. Any number of
 * workers may do it. Closing its scope ends it gently: no new attempts, and a moment for those under way; one that is cut is
 * repeated by another worker once its time has run out.
 */
import { counters } from "@slipway/domain/observability/Metrics"
import { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { type TakenAttempt, LOG_RETENTION, WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { afterAttempt, bodyOf, isDelivered, type Outcome, signing, Trouble } from "@slipway/domain/partner/rules/Webhook"
import { Cause, DateTime, Effect, Latch, Layer, Random, Schedule, Scope } from "effect"
import { Timing } from "../shared/Timing.ts"

/** Attempts of one worker at a time, which mostly wait. More than a grant has endpoints: its slow ones alone cannot take all. */
const CONCURRENCY = 64
const PURGED_AT_ONCE = 1000

/** `refused`: whoever answered did not take it. */
const outcomeOf = (outcome: Outcome): string => outcome._tag === "Failed" ? outcome.trouble : isDelivered(outcome) ? "delivered" : "refused"
const attempted = counters(
  "slipway_webhook_attempts_total",
  "Attempts of this worker to deliver an event to a webhook, by what came of it.",
  "outcome",
  [
    "delivered",
    "refused",
    ...Trouble.literals
  ]
)

/** Makes one attempt and records what came of it. */
export const attempt = Effect.fn("DeliverWebhooks.attempt")(function*(taken: TakenAttempt) {
  const store = yield* WebhookStore
  const sender = yield* WebhookSender
  const { event, manual, secrets, url } = taken
  const at = yield* DateTime.now
  const outcome = yield* sender.send({
    url,
    id: event.id,
    at,
    body: bodyOf(event),
    secrets: signing(secrets, at).map(({ value }) => value)
  })
  yield* attempted.add(outcomeOf(outcome))
  const ended = yield* DateTime.now
  const next = afterAttempt(taken.attempt, outcome, ended, yield* Random.next)
  const durationMillis = Math.max(0, ended.epochMilliseconds - at.epochMilliseconds)
  const isRecorded = yield* store.record(taken, { at, durationMillis, outcome }, next, ended)
  if (isRecorded && !manual && next._tag === "Disable") {
    yield* Effect.logWarning("a webhook endpoint is disabled, unless it was enabled during its last attempt", {
      reason: next.reason,
      sequence: event.sequence
    })
  }
})

/** Runs until the scope closes. */
export const start = Effect.fn("DeliverWebhooks.start")(function*() {
  const store = yield* WebhookStore
  const { lastAttempts, purge, tick } = yield* Timing
  const scope = yield* Scope.Scope
  // Closed last, after what is under way had its moment.
  const attempts = yield* Scope.fork(scope, "parallel")
  const ended = Latch.makeUnsafe(false)
  let free = CONCURRENCY
  yield* attempted.declare

  const look = Effect.gen(function*() {
    if (free === 0) return
    for (const taken of yield* store.take(yield* DateTime.now, free)) {
      free--
      yield* attempt(taken).pipe(
        surviving,
        Effect.ensuring(Effect.sync(() => {
          free++
          ended.openUnsafe()
        })),
        Effect.annotateLogs({ endpointId: taken.endpointId, eventId: taken.event.id }),
        Effect.forkIn(attempts)
      )
    }
  }).pipe(surviving)

  const idle = Effect.gen(function*() {
    // Closed before it is looked: what ends in between opens it again.
    for (yield* ended.close; free < CONCURRENCY; yield* ended.close) yield* ended.await
  })
  yield* Effect.addFinalizer(() => Effect.timeoutOption(idle, lastAttempts))
  // An endpoint that got its event is looked at again at once: there may be another.
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(look, Effect.andThen(Effect.timeoutOption(ended.await, tick), ended.close))))
  yield* purgeLog().pipe(surviving, Effect.repeat(Schedule.spaced(purge)), Effect.forkScoped)
})

/** Forgets attempts of long ago. */
export const purgeLog = Effect.fn("DeliverWebhooks.purgeLog")(function*() {
  const store = yield* WebhookStore
  const before = DateTime.subtractDuration(yield* DateTime.now, LOG_RETENTION)
  while ((yield* store.purge(before, PURGED_AT_ONCE)) === PURGED_AT_ONCE) continue
})

/** Trouble of one round, or with one endpoint, is logged; what was taken is tried again when its time has run out. */
const surviving = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  self.pipe(
    Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logWarning("delivering webhooks failed", cause)),
    Effect.ignoreCause
  )

export const layer = Layer.effectDiscard(start())
