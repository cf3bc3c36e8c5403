/**
 * Delivers the events of feeds to webhooks: one at a time to each endpoint, in order, to many endpoints at once. Any number of
 * workers may do it. Closing its scope ends it gently: no new attempts, and a short time for attempts under way. Another worker
 * repeats an interrupted attempt after its timeout.
 */
import { counters } from "@slipway/domain/observability/Metrics"
import { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { type TakenAttempt, LOG_RETENTION, WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { afterAttempt, bodyOf, isDelivered, type Outcome, signing, Trouble } from "@slipway/domain/partner/rules/Webhook"
import { Cause, DateTime, Effect, Latch, Layer, Random, Schedule, Scope } from "effect"
import { Timing } from "../shared/Timing.ts"

/** Attempts of one worker at a time, which mostly wait. More than the endpoints of a grant, so that its slow endpoints cannot take all. */
const CONCURRENCY = 64
const PURGED_AT_ONCE = 1000

/** `refused`: the endpoint answered, and did not accept the event. */
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

/** Makes one attempt and records its outcome. */
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
  // Closed last, so that attempts under way have a short time to end.
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
    // Closed before `free` is read: an attempt that ends in between opens it again.
    for (yield* ended.close; free < CONCURRENCY; yield* ended.close) yield* ended.await
  })
  yield* Effect.addFinalizer(() => Effect.timeoutOption(idle, lastAttempts))
  // An endpoint that got its event is checked again at once: it may have another.
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(look, Effect.andThen(Effect.timeoutOption(ended.await, tick), ended.close))))
  yield* purgeLog().pipe(surviving, Effect.repeat(Schedule.spaced(purge)), Effect.forkScoped)
})

/** Deletes attempts older than `LOG_RETENTION`. */
export const purgeLog = Effect.fn("DeliverWebhooks.purgeLog")(function*() {
  const store = yield* WebhookStore
  const before = DateTime.subtractDuration(yield* DateTime.now, LOG_RETENTION)
  while ((yield* store.purge(before, PURGED_AT_ONCE)) === PURGED_AT_ONCE) continue
})

/** Logs a failure of one round or endpoint. An attempt that was taken is repeated after its timeout. */
const surviving = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  self.pipe(
    Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logWarning("delivering webhooks failed", cause)),
    Effect.ignoreCause
  )

export const layer = Layer.effectDiscard(start())
