/** Notifications: taking what is due, recording its outcome, the queue. */
import { type Attempt, type EndpointKey, type TakenNotification, told } from "@slipway/domain/partner/ports/WebhookStore"
import { afterNotification, lineAfter, type NextOfLine, notificationId, standingOf } from "@slipway/domain/partner/rules/Notification"
import type { Outcome } from "@slipway/domain/partner/rules/Webhook"
import { DateTime, Effect } from "effect"
import { guard } from "../sql/SqlFailure.ts"
import { inTransaction } from "../sql/Transaction.ts"
import { type HeldNotification, toNotification, type UnreadableNotification } from "./rows/NotificationRows.ts"
import { columnsOf } from "./rows/WebhookRows.ts"
import { insertDelivery } from "./statements/deliveries.ts"
import { selectLocked, updateRefusal } from "./statements/endpoints.ts"
import {
  deleteNotificationRedelivery,
  insertNotificationRedelivery,
  purgeLines,
  purgeQueued,
  selectNotification,
  updateLine
} from "./statements/notifications.ts"
import type { Store } from "./Store.ts"

const iso = DateTime.formatIso

/** Moves the line and its endpoint on; locks the endpoint first, as `enable` does. `false`: the attempt was no longer the caller's. */
const moveOn = Effect.fnUntraced(function*({ audit, selectLine, sql }: Store, taken: HeldNotification, next: NextOfLine, at: DateTime.Utc) {
  const { attempt, dueAt, endpointId, fence, notification: { sandboxId, seq } } = taken
  const [endpoint] = yield* selectLocked(sql, endpointId)
  const [line] = yield* selectLine({ endpointId, sandboxId, fence })
  if (endpoint === undefined || line === undefined) return false
  yield* updateLine(sql, { endpointId, sandboxId }, lineAfter({ attempt, dueAt, seq }, next, at, line))
  const isLate = line.dueAt !== null && !DateTime.Equivalence(line.dueAt, dueAt)
  const { disable, refusingSince } = standingOf(endpoint.refusingSince, next, at, isLate)
  const disables = disable !== null && endpoint.disabled === null ? disable : null
  if (disables === null && refusingSince === endpoint.refusingSince) return true
  yield* updateRefusal(sql, endpointId, refusingSince, disables === null ? null : { at, reason: disables })
  if (disables !== null) yield* audit.append([told("webhook.disabled", endpoint, at, { reason: disables })])
  return true
})

/** Logs an attempt and moves its line on, in one transaction. `false`: the attempt was no longer the caller's; nothing was written. */
export const recordNotification = Effect.fn("WebhookStore.recordNotification")(
  function*(
    store: Store,
    taken: HeldNotification,
    made: Pick<Attempt, "at" | "durationMillis" | "outcome">,
    next: NextOfLine,
    at: DateTime.Utc
  ) {
    const { attempt, endpointId, fence, manual, notification: { sandboxId, seq, type } } = taken
    const isHeld = manual
      ? (yield* deleteNotificationRedelivery(store.sql, { endpointId, sandboxId, seq, fence })).length > 0
      : yield* moveOn(store, taken, next, at)
    if (!isHeld) return false
    yield* insertDelivery(store.sql, {
      endpoint_id: endpointId,
      event_id: notificationId(sandboxId, seq),
      sequence: seq,
      attempt,
      manual,
      at: iso(made.at),
      duration_ms: made.durationMillis,
      ...columnsOf(made.outcome),
      sandbox_id: sandboxId,
      type
    })
    return true
  },
  inTransaction
)

/** Records an attempt that cannot be read as failed: nothing is sent. */
const fail = Effect.fnUntraced(function*(store: Store, { trouble, ...taken }: UnreadableNotification, at: DateTime.Utc) {
  const outcome: Outcome = { _tag: "Failed", trouble }
  const next = afterNotification(taken.attempt, outcome, at, 0)
  yield* recordNotification(store, taken, { at, durationMillis: 0, outcome }, next, at)
  const what = trouble === "event_unreadable" ? "an event of a sandbox cannot be read" : "no key opens the secret of a webhook endpoint"
  yield* Effect.logError(`${what}, so it is not delivered`, { next: next._tag }).pipe(
    Effect.annotateLogs({ endpointId: taken.endpointId, sandboxId: taken.notification.sandboxId, sequence: taken.notification.seq })
  )
})

/** Half of the limit for lines, then manual ones, then the rest for lines. */
export const takeNotifications = Effect.fn("WebhookStore.takeNotifications")(function*(store: Store, now: DateTime.Utc, limit: number) {
  const { key, takeLines, takeManualNotifications } = store
  const asked = { now: iso(now) }
  const lines = (limit: number) => limit === 0 ? Effect.succeed([]) : takeLines({ ...asked, limit })
  const half = Math.ceil(limit / 2)
  const due = yield* lines(half)
  const manual = yield* takeManualNotifications({ ...asked, limit: limit - due.length })
  const more = due.length < half ? [] : yield* lines(limit - due.length - manual.length)
  if (manual.length + due.length + more.length === 0) return []
  const sealing = yield* key
  const taken = [
    ...manual.map((row) => toNotification(row, true, sealing)),
    ...[...due, ...more].map((row) => toNotification(row, false, sealing))
  ].filter((one) => one !== null)
  yield* Effect.forEach(taken.filter((one) => "trouble" in one), (unreadable) => fail(store, unreadable, now), { discard: true })
  return taken.filter((one): one is TakenNotification => !("trouble" in one))
}, guard)

/** Has a notification of the endpoint's log sent once more. `false`: the log has none with this id, or it is no longer kept. */
export const redeliverNotification = Effect.fnUntraced(
  function*({ sql }: Store, { id }: EndpointKey, eventId: string, at: DateTime.Utc) {
    const [found] = yield* selectNotification(sql, id, eventId)
    if (found === undefined) return false
    yield* insertNotificationRedelivery(sql, id, found, at)
    return true
  }
)

export const purgeNotifications = Effect.fn("WebhookStore.purgeNotifications")(
  function*({ sql }: Store, before: DateTime.Utc, limit: number) {
    const { length } = yield* purgeQueued(sql, before, limit)
    if (length < limit) yield* purgeLines(sql, limit)
    return length
  },
  guard
)
