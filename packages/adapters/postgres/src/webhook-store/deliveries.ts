/** Attempts: taking what is due, recording its outcome, the log. */
import { type Attempt, type EndpointKey, PartnerEventNotFound, type TakenAttempt, told } from "@slipway/domain/partner/ports/WebhookStore"
import { afterAttempt, type Next, type Outcome, standingAfter } from "@slipway/domain/partner/rules/Webhook"
import type { PartnerEvent } from "@slipway/domain/partner/schema/PartnerEvent"
import { DateTime, Effect } from "effect"
import { guard } from "../sql/SqlFailure.ts"
import { inTransaction } from "../sql/Transaction.ts"
import { redeliverNotification } from "./notifications.ts"
import { columnsOf, toClaimed, toDelivery, type Unreadable } from "./rows/WebhookRows.ts"
import {
  deleteRedelivery,
  insertDelivery,
  insertRedelivery,
  purgeDeliveries,
  selectDeliveries,
  selectEvent
} from "./statements/deliveries.ts"
import { find, findLocked, selectById, selectTaken, updateAfterAttempt } from "./statements/endpoints.ts"
import type { Store } from "./Store.ts"

const iso = DateTime.formatIso

export const deliveries = Effect.fn("WebhookStore.deliveries")(
  function*({ sql }: Store, key: EndpointKey, { before, limit }: { readonly before: number | null; readonly limit: number }) {
    const { id } = yield* find(sql, key)
    return (yield* selectDeliveries(sql, id, before, limit)).map(toDelivery)
  },
  guard
)

export const redeliver = Effect.fn("WebhookStore.redeliver")(
  function*(store: Store, key: EndpointKey, eventId: string, at: DateTime.Utc) {
    const { sql } = store
    yield* findLocked(sql, key)
    if (yield* redeliverNotification(store, key, eventId, at)) return
    if ((yield* selectEvent(sql, eventId, key.grantId)).length === 0) return yield* new PartnerEventNotFound()
    yield* insertRedelivery(sql, key.id, eventId, at)
  },
  inTransaction
)

/** The part of an attempt that `record` needs. An attempt that cannot be read has only this. */
type Held = Pick<TakenAttempt, "attempt" | "dueAt" | "endpointId" | "fence" | "manual"> & {
  readonly event: Pick<PartnerEvent, "id" | "sequence">
}

/** Logs an attempt and moves its endpoint on, in one transaction. `false`: the attempt was no longer the caller's; nothing was written. */
export const record = Effect.fn("WebhookStore.record")(
  function*({ audit, sql }: Store, taken: Held, made: Pick<Attempt, "at" | "durationMillis" | "outcome">, next: Next, at: DateTime.Utc) {
    const { attempt, dueAt, endpointId, event, fence, manual } = taken
    let isDisabled = false
    if (manual) {
      if ((yield* deleteRedelivery(sql, endpointId, event.id, fence)).length === 0) return false
    } else {
      const [held] = yield* selectTaken(sql, endpointId, fence)
      if (held === undefined) return false
      const after = standingAfter({ attempt, sequence: event.sequence, dueAt }, next, at, held)
      yield* updateAfterAttempt(sql, endpointId, after, next._tag === "Delivered")
      isDisabled = after.disabled !== null && held.disabled === null
    }
    yield* insertDelivery(sql, {
      endpoint_id: endpointId,
      event_id: event.id,
      sequence: event.sequence,
      attempt,
      manual,
      at: iso(made.at),
      duration_ms: made.durationMillis,
      ...columnsOf(made.outcome)
    })
    if (isDisabled && next._tag === "Disable") {
      const [endpoint] = yield* selectById(sql, endpointId)
      if (endpoint !== undefined) yield* audit.append([told("webhook.disabled", endpoint, at, { reason: next.reason })])
    }
    return true
  },
  inTransaction
)

/** Records an attempt that cannot be read as failed: nothing is sent. */
const fail = Effect.fnUntraced(function*(store: Store, { trouble, ...taken }: Unreadable, at: DateTime.Utc) {
  const outcome: Outcome = { _tag: "Failed", trouble }
  const next = afterAttempt(taken.attempt, outcome, at, 0)
  yield* record(store, taken, { at, durationMillis: 0, outcome }, next, at)
  const what = trouble === "event_unreadable" ? "an event of the feed cannot be read" : "no key opens the secret of a webhook endpoint"
  yield* Effect.logError(`${what}, so it is not delivered`, { next: next._tag }).pipe(
    Effect.annotateLogs({ endpointId: taken.endpointId, eventId: taken.event.id, sequence: taken.event.sequence })
  )
})

/** Half of the limit for events in order, then manual ones, then the rest for events in order. */
export const take = Effect.fn("WebhookStore.take")(function*(store: Store, now: DateTime.Utc, limit: number) {
  const { key, takeManual, takeOrdered } = store
  const inLine = (limit: number) => limit === 0 ? Effect.succeed([]) : takeOrdered({ now: iso(now), limit })
  const half = Math.ceil(limit / 2)
  const due = yield* inLine(half)
  const asked = yield* takeManual(limit - due.length)
  const more = due.length < half ? [] : yield* inLine(limit - due.length - asked.length)
  if (asked.length + due.length + more.length === 0) return []
  const sealing = yield* key
  const taken = [
    ...asked.map((row) => toClaimed(row, true, sealing)),
    ...[...due, ...more].map((row) => toClaimed(row, false, sealing))
  ].filter((delivery) => delivery !== null)
  yield* Effect.forEach(taken.filter((delivery) => "trouble" in delivery), (unreadable) => fail(store, unreadable, now), { discard: true })
  return taken.filter((delivery): delivery is TakenAttempt => !("trouble" in delivery))
}, guard)

export const purge = Effect.fn("WebhookStore.purge")(function*({ sql }: Store, before: DateTime.Utc, limit: number) {
  return (yield* purgeDeliveries(sql, before, limit)).length
}, guard)
