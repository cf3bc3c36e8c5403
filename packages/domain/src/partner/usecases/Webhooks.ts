/** Use cases of partners: managing webhook endpoints. */
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
import { type Endpoint, mintSecret, wantedNotifications, type WantedTypes } from "../rules/Webhook.ts"
import { AnyUuid } from "../schema/Attribution.ts"

/** An endpoint. This is the only time that its secret can be read. */
export interface WithSecret {
  readonly endpoint: Endpoint
  readonly secret: Redacted.Redacted
}

/** A page of an endpoint's log, newest first. */
export interface DeliveryPage {
  readonly deliveries: ReadonlyArray<Attempt>
  /** The `before` of the next page; `null`: this is the last page. */
  readonly nextCursor: number | null
}

/** Types of the feed as they were given, then those of notifications. */
const inOrder = (types: WantedTypes | null): WantedTypes | null => {
  const notifications = wantedNotifications(types)
  return types === null ? null : [...types.filter((type) => !notifications.some((one) => one === type)), ...notifications]
}

const decodeId = Schema.decodeUnknownEffect(AnyUuid)

/** The store's key of an endpoint. A text that is not a UUID identifies no endpoint. */
const keyOf = (grantId: string, id: string) =>
  Effect.mapBoth(decodeId(id), { onSuccess: (id) => ({ grantId, id }), onFailure: () => new EndpointNotFound() })

/**
 * The webhook endpoints of a grant. Endpoints of other grants and invalid ids are not found; ids ignore case. The caller has authorized
 * the request and set `Acting`.
 */
export class Webhooks extends Context.Service<Webhooks, {
  /** Registers an endpoint for events after its registration. `types: null`: all types of the feed. */
  register(grantId: string, endpoint: { readonly url: string; readonly types: WantedTypes | null }): Effect.Effect<
    WithSecret,
    TargetRefused | TooManyEndpoints | StoreUnavailable
  >
  /** Oldest first. */
  list(grantId: string): Effect.Effect<ReadonlyArray<Endpoint>, StoreUnavailable>
  find(grantId: string, id: string): Effect.Effect<Endpoint, EndpointNotFound | StoreUnavailable>
  remove(grantId: string, id: string): Effect.Effect<void, EndpointNotFound | StoreUnavailable>
  /** Replaces the secret. The secret before it signs for 24 more hours. */
  rotateSecret(grantId: string, id: string): Effect.Effect<WithSecret, EndpointNotFound | StoreUnavailable>
  /** Continues with the first undelivered event at once. For an enabled endpoint, ends the wait for a retry. */
  enable(grantId: string, id: string): Effect.Effect<Endpoint, EndpointNotFound | StoreUnavailable>
  deliveries(
    grantId: string,
    id: string,
    page: { readonly before: number | null; readonly limit: number }
  ): Effect.Effect<DeliveryPage, EndpointNotFound | StoreUnavailable>
  /** Makes a worker send one event again, within about a second, outside the order. The log has the outcome. */
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
            { id: yield* ids.uuid7, grantId, url: admitted, types: inOrder(types), createdAt: yield* DateTime.now },
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
          // Report an unknown endpoint before an unknown event.
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
