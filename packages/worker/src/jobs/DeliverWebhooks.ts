/**
 * Delivers to webhooks the events of feeds, one at a time to each endpoint, and notifications, one at a time of each sandbox; to many
 * endpoints at once. Any number of workers may do it. Closing its scope ends it gently: no new attempts, and a short time for attempts
 * under way. Another worker repeats an interrupted attempt after its timeout.
 */
import { counters } from "@slipway/domain/observability/Metrics"
import { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { type TakenAttempt, type TakenNotification, LOG_RETENTION, WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { afterNotification, notificationBody, notificationId } from "@slipway/domain/partner/rules/Notification"
import { afterAttempt, bodyOf, isDelivered, type Outcome, signing, Trouble } from "@slipway/domain/partner/rules/Webhook"
import { Cause, DateTime, Effect, Latch, Layer, Random, Schedule, Scope } from "effect"
import { Timing } from "../shared/Timing.ts"

/**
 * Attempts of one worker at a time, which mostly wait: at events of feeds, and as many at notifications, so that neither waits for the
 * other. More than the endpoints of a grant, so that its slow endpoints cannot take all.
 */
const CONCURRENCY = 64
const PURGED_AT_ONCE = 1000

/** `refused`: the endpoint answered, and did not accept the event. */
const outcomeOf = (outcome: Outcome): string => outcome._tag === "Failed" ? outcome.trouble : isDelivered(outcome) ? "delivered" : "refused"
const OUTCOMES = ["delivered", "refused", ...Trouble.literals]
const attempted = counters(
  "slipway_webhook_attempts_total",
  "Attempts of this worker to deliver an event to a webhook, by what came of it.",
  "outcome",
  OUTCOMES
)
const notified = counters(
  "slipway_webhook_notification_attempts_total",
  "Attempts of this worker to deliver a notification to a webhook, by what came of it.",
  "outcome",
  OUTCOMES
)

/** Sends one request, and says when it began and ended. */
const send = Effect.fnUntraced(function*({ secrets, url }: Pick<TakenAttempt, "secrets" | "url">, id: string, body: string) {
  const sender = yield* WebhookSender
  const at = yield* DateTime.now
  const outcome = yield* sender.send({ url, id, at, body, secrets: signing(secrets, at).map(({ value }) => value) })
  const ended = yield* DateTime.now
  return { made: { at, durationMillis: Math.max(0, ended.epochMilliseconds - at.epochMilliseconds), outcome }, ended }
})

/** Makes one attempt at an event of a feed and records its outcome. */
export const attempt = Effect.fn("DeliverWebhooks.attempt")(function*(taken: TakenAttempt) {
  const store = yield* WebhookStore
  const { event, manual } = taken
  const { ended, made } = yield* send(taken, event.id, bodyOf(event))
  yield* attempted.add(outcomeOf(made.outcome))
  const next = afterAttempt(taken.attempt, made.outcome, ended, yield* Random.next)
  const isRecorded = yield* store.record(taken, made, next, ended)
  if (isRecorded && !manual && next._tag === "Disable") {
    yield* Effect.logWarning("a webhook endpoint is disabled, unless it was enabled during its last attempt", {
      reason: next.reason,
      sequence: event.sequence
    })
  }
})

/** Makes one attempt at a notification and records its outcome. */
export const notify = Effect.fn("DeliverWebhooks.notify")(function*(taken: TakenNotification) {
  const store = yield* WebhookStore
  const { manual, notification, notification: { sandboxId, seq } } = taken
  const { ended, made } = yield* send(taken, notificationId(sandboxId, seq), notificationBody(notification))
  yield* notified.add(outcomeOf(made.outcome))
  const next = afterNotification(taken.attempt, made.outcome, ended, yield* Random.next)
  const isRecorded = yield* store.recordNotification(taken, made, next, ended)
  if (!isRecorded || manual) return
  if (next._tag === "Gone") yield* Effect.logWarning("a webhook endpoint answered 410, so it is disabled")
  if (next._tag === "Skip") yield* Effect.logWarning("a notification failed for the last time and is skipped", { sandboxId, sequence: seq })
})

/** A loop that takes what is due, and makes up to {@link CONCURRENCY} attempts at once. Attempts end with the scope. */
const deliver = Effect.fnUntraced(function*<A extends { readonly endpointId: string }, E, R>(
  take: (now: DateTime.Utc, limit: number) => Effect.Effect<ReadonlyArray<A>, E, R>,
  attempt: (taken: A) => Effect.Effect<void, E, R>
) {
  const { lastAttempts, tick } = yield* Timing
  const scope = yield* Scope.Scope
  // Closed last, so that attempts under way have a short time to end.
  const attempts = yield* Scope.fork(scope, "parallel")
  const ended = Latch.makeUnsafe(false)
  let free = CONCURRENCY

  const look = Effect.gen(function*() {
    if (free === 0) return
    for (const taken of yield* take(yield* DateTime.now, free)) {
      free--
      yield* attempt(taken).pipe(
        surviving,
        Effect.ensuring(Effect.sync(() => {
          free++
          ended.openUnsafe()
        })),
        Effect.annotateLogs({ endpointId: taken.endpointId }),
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
  return Effect.forever(Effect.andThen(look, Effect.andThen(Effect.timeoutOption(ended.await, tick), ended.close)))
})

/** Runs until the scope closes. */
export const start = Effect.fn("DeliverWebhooks.start")(function*() {
  const store = yield* WebhookStore
  const { purge } = yield* Timing
  yield* attempted.declare
  yield* notified.declare
  const events = yield* deliver(store.take, (taken) => Effect.annotateLogs(attempt(taken), { eventId: taken.event.id }))
  const notifications = yield* deliver(store.takeNotifications, notify)
  yield* purgeLog().pipe(surviving, Effect.repeat(Schedule.spaced(purge)), Effect.forkScoped)
  // One fiber, which ends first: none of them takes anything more while attempts of the other end.
  yield* Effect.forkScoped(Effect.all([events, notifications], { concurrency: "unbounded", discard: true }))
})

/** Deletes attempts and notifications older than `LOG_RETENTION`. */
export const purgeLog = Effect.fn("DeliverWebhooks.purgeLog")(function*() {
  const store = yield* WebhookStore
  const before = DateTime.subtractDuration(yield* DateTime.now, LOG_RETENTION)
  while ((yield* store.purge(before, PURGED_AT_ONCE)) === PURGED_AT_ONCE) continue
  while ((yield* store.purgeNotifications(before, PURGED_AT_ONCE)) === PURGED_AT_ONCE) continue
})

/** Logs a failure of one round or endpoint. An attempt that was taken is repeated after its timeout. */
const surviving = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  self.pipe(
    Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logWarning("delivering webhooks failed", cause)),
    Effect.ignoreCause
  )

export const layer = Layer.effectDiscard(start())
