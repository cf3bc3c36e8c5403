/** The ports of keys, money and webhooks as one process has them: each call passes a fault and is seen by its witness. */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import type { Outcome } from "@slipway/domain/partner/rules/Webhook"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Faults, Possible } from "./Faults.ts"
import type { Process } from "./Timeline.ts"
import type { WebhookWitness } from "./WebhookWitness.ts"
import type { Witness } from "./Witness.ts"

const unavailable = () => new StoreUnavailable({ cause: "cut" })
const look = { quiet: true }

/** Calls of one port of the store. `clock`: the store's own. */
const calls =
  (process: Process, faults: Faults, port: string, clock: Clock.Clock) =>
  <A, E>(name: string, self: Effect.Effect<A, E | StoreUnavailable>, more: Possible<E | StoreUnavailable> = {}) =>
    faults.call<A, E | StoreUnavailable>(process, `${port}.${name}`, Effect.provideService(self, Clock.Clock, clock), {
      error: unavailable,
      ...more
    })

export const accessOf = (process: Process, faults: Faults, clock: Clock.Clock, store: AccessStore["Service"]): AccessStore["Service"] => {
  const call = calls(process, faults, "access", clock)
  return AccessStore.of({
    ...store,
    // Every request asks: what is lost of it is no more than of the request itself.
    admit: (digest, limits) => call("admit", store.admit(digest, limits), look),
    stillGood: (ids) => call("stillGood", store.stillGood(ids), look),
    listGrants: call("listGrants", store.listGrants, look),
    revokeGrant: (idOrName, at) => call(`revokeGrant ${idOrName}`, store.revokeGrant(idOrName, at), { repeatable: true }),
    revokeKey: (id, at) => call(`revokeKey ${id}`, store.revokeKey(id, at), { repeatable: true })
  })
}

export const spendingOf = (
  process: Process,
  faults: Faults,
  clock: Clock.Clock,
  witness: Witness,
  spending: Spending["Service"]
): Spending["Service"] => {
  const call = calls(process, faults, "spending", clock)
  return Spending.of({
    ...spending,
    reserve: (one, micros) => call(`reserve ${one.sandboxId} ${micros}`, spending.reserve(one, micros), { repeatable: true }),
    charge: (one, micros, tokens) => call(`charge ${one.sandboxId} ${micros}`, spending.charge(one, micros, tokens), { repeatable: true }),
    release: (id) =>
      Effect.suspend(() => {
        witness.givesBack(process, id)
        return call(`release ${id}`, spending.release(id), { repeatable: true })
      }),
    prune: (before, limit) => call("prune", spending.prune(before, limit), look),
    reservedFor: (after, limit) => call("reservedFor", spending.reservedFor(after, limit), look),
    refusal: (work) => call("refusal", spending.refusal(work), look)
  })
}

export const webhooksOf = (
  process: Process,
  faults: Faults,
  clock: Clock.Clock,
  store: WebhookStore["Service"]
): WebhookStore["Service"] => {
  const call = calls(process, faults, "webhooks", clock)
  return WebhookStore.of({
    ...store,
    register: (endpoint, secret) => call(`register ${endpoint.url}`, store.register(endpoint, secret)),
    remove: (key, at) => call(`remove ${key.id}`, store.remove(key, at)),
    rotate: (key, secret, at) => call(`rotate ${key.id}`, store.rotate(key, secret, at)),
    enable: (key, at) => call(`enable ${key.id}`, store.enable(key, at), { repeatable: true }),
    redeliver: (key, eventId, at) => call(`redeliver ${eventId}`, store.redeliver(key, eventId, at)),
    deliveries: (key, page) => call("deliveries", store.deliveries(key, page), look),
    take: (now, limit) => call("take", store.take(now, limit), look),
    record: (taken, attempt, next, at) =>
      call(`record ${taken.url} ${taken.event.sequence} ${next._tag}`, store.record(taken, attempt, next, at), { repeatable: true }),
    purge: (before, limit) => call("purge", store.purge(before, limit), look),
    takeNotifications: (now, limit) => call("take notifications", store.takeNotifications(now, limit), look),
    recordNotification: (taken, attempt, next, at) =>
      call(
        `record ${taken.url} ${taken.notification.sandboxId} ${taken.notification.seq} ${next._tag}`,
        store.recordNotification(taken, attempt, next, at),
        { repeatable: true }
      ),
    purgeNotifications: (before, limit) => call("purge notifications", store.purgeNotifications(before, limit), look)
  })
}

const answered = (status: number, retryAfter: number | null = null): Outcome => ({ _tag: "Answered", status, retryAfter, body: null })

/** The receivers of webhooks: they belong to the partners alone. `isDead`: a receiver that never answers. */
export const receiversOf = (
  process: Process,
  faults: Faults,
  witness: WebhookWitness,
  isDead: (url: string) => boolean
): WebhookSender["Service"] =>
  WebhookSender.of({
    admit: Effect.succeed,
    send: (request) => {
      const who = `${process.name} receiver ${request.url}`
      return faults.call<Outcome, never>(
        process,
        `receiver.send ${request.url} ${request.id}`,
        Effect.suspend(() => {
          witness.sent(request)
          if (isDead(request.url)) return Effect.succeed<Outcome>({ _tag: "Failed", trouble: "connection" })
          if (faults.happens("receiverSilent", who)) {
            return Effect.as(Effect.sleep("15 seconds"), { _tag: "Failed", trouble: "timeout" } as const)
          }
          if (faults.happens("receiverBusy", who)) {
            return Effect.succeed(answered(503, faults.chance.pick([1, 20, 600, 7200])))
          }
          if (faults.happens("receiverFails", who)) return Effect.succeed(answered(faults.chance.pick([301, 404, 500])))
          if (faults.happens("receiverGone", who)) return Effect.succeed(answered(410))
          // It took the event, and the answer is lost.
          if (faults.happens("receiverCut", who)) return Effect.succeed<Outcome>({ _tag: "Failed", trouble: "connection" })
          return Effect.succeed(answered(faults.chance.pick([200, 202, 204])))
        })
      )
    }
  })
