/** What a partner may do about its webhooks. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { Ids } from "../../ids/Ids.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { type TargetRefused, WebhookSender } from "../ports/WebhookSender.ts"
import { type Attempt, EndpointNotFound, PartnerEventNotFound, type TooManyEndpoints, WebhookStore } from "../ports/WebhookStore.ts"
import { type Endpoint, mintSecret, type WantedTypes } from "../rules/Webhook.ts"
import { AnyUuid } from "../schema/Attribution.ts"

/** An endpoint with the one chance to read its secret. */
export interface WithSecret {
  readonly endpoint: Endpoint
  readonly secret: Redacted.Redacted
}

/** A page of an endpoint's log, newest first. */
export interface DeliveryPage {
  readonly deliveries: ReadonlyArray<Attempt>
  /** The `before` of the next page; `null`: this is the last one. */
  readonly nextCursor: number | null
}

const decodeId = Schema.decodeUnknownEffect(AnyUuid)

/** As its store knows it: what is no UUID names none. */
const keyOf = (grantId: string, id: string) =>
  Effect.mapBoth(decodeId(id), { onSuccess: (id) => ({ grantId, id }), onFailure: () => new EndpointNotFound() })

/**
 * The webhook endpoints of a grant. What is another grant's is not found, nor is what cannot be an id; in upper case it is the
 * same id. Whoever calls says on whose behalf (`Acting`); that the grant may be spoken for is decided before.
 */
export class Webhooks extends Context.Service<Webhooks, {
  /** The endpoint is told of events after its registration. `types: null`: of all. */
  register(grantId: string, endpoint: { readonly url: string; readonly types: WantedTypes | null }): Effect.Effect<
    WithSecret,
    TargetRefused | TooManyEndpoints | StoreUnavailable
  >
  /** Oldest first. */
  list(grantId: string): Effect.Effect<ReadonlyArray<Endpoint>, StoreUnavailable>
  find(grantId: string, id: string): Effect.Effect<Endpoint, EndpointNotFound | StoreUnavailable>
  remove(grantId: string, id: string): Effect.Effect<void, EndpointNotFound | StoreUnavailable>
  /** The secret before signs along for 24 hours. */
  rotateSecret(grantId: string, id: string): Effect.Effect<WithSecret, EndpointNotFound | StoreUnavailable>
  /** Goes on with the first undelivered event, at once. Of one that is enabled, ends the wait for a retry. */
  enable(grantId: string, id: string): Effect.Effect<Endpoint, EndpointNotFound | StoreUnavailable>
  deliveries(
    grantId: string,
    id: string,
    page: { readonly before: number | null; readonly limit: number }
  ): Effect.Effect<DeliveryPage, EndpointNotFound | StoreUnavailable>
  /** Has a worker send one event once more, within about a second, beside the ordered line. The log tells what came of it. */
  redeliver(grantId: string, id: string, eventId: string): Effect.Effect<void, EndpointNotFound | PartnerEventNotFound | StoreUnavailable>
}>()("@slipway/domain/Webhooks") {
  static readonly layer = Layer.effect(
    Webhooks,
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const sender = yield* WebhookSender
      const ids = yield* Ids

      return Webhooks.of({
        register: Effect.fn("Webhooks.register")(function*(grantId, { types, url }) {
          const admitted = yield* sender.admit(url)
          const secret = yield* mintSecret(ids)
          const endpoint = yield* store.register(
            { id: yield* ids.uuid7, grantId, url: admitted, types, createdAt: yield* DateTime.now },
            secret
          )
          return { endpoint, secret }
        }),
        list: (grantId) => store.list(grantId),
        find: (grantId, id) => Effect.flatMap(keyOf(grantId, id), store.find),
        remove: Effect.fn("Webhooks.remove")(function*(grantId, id) {
          yield* store.remove(yield* keyOf(grantId, id), yield* DateTime.now)
        }),
        rotateSecret: Effect.fn("Webhooks.rotateSecret")(function*(grantId, id) {
          const key = yield* keyOf(grantId, id)
          const secret = yield* mintSecret(ids)
          return { endpoint: yield* store.rotate(key, secret, yield* DateTime.now), secret }
        }),
        enable: Effect.fn("Webhooks.enable")(function*(grantId, id) {
          return yield* store.enable(yield* keyOf(grantId, id), yield* DateTime.now)
        }),
        deliveries: Effect.fn("Webhooks.deliveries")(function*(grantId, id, { before, limit }) {
          const found = yield* store.deliveries(yield* keyOf(grantId, id), { before, limit: limit + 1 })
          const deliveries = found.slice(0, limit)
          return { deliveries, nextCursor: found.length > limit ? deliveries.at(-1)?.position ?? null : null }
        }),
        redeliver: Effect.fn("Webhooks.redeliver")(function*(grantId, id, eventId) {
          const key = yield* keyOf(grantId, id)
          // Of an endpoint that is none, nothing is said about its events.
          const event = yield* Effect.catchTag(
            decodeId(eventId),
            "SchemaError",
            () => Effect.andThen(store.find(key), new PartnerEventNotFound())
          )
          yield* store.redeliver(key, event, yield* DateTime.now)
        })
      })
    })
  )
}
