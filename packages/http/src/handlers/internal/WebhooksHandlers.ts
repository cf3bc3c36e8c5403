/** Translates requests about webhook endpoints into domain calls. */
import type { DeliveryResource, EndpointResource } from "@slipway/api/groups/WebhooksApi"
import { InternalApi } from "@slipway/api/InternalApi"
import { CurrentPrincipal } from "@slipway/api/shared/Middleware"
import { MAX_LIMIT } from "@slipway/api/shared/Parameters"
import type { Attempt } from "@slipway/domain/partner/ports/WebhookStore"
import { type Endpoint, isDelivered } from "@slipway/domain/partner/rules/Webhook"
import { Webhooks, type WithSecret } from "@slipway/domain/partner/usecases/Webhooks"
import { Effect, Redacted } from "effect"
import { HttpApiBuilder } from "effect/http-api"

const toResource = ({ createdAt, cursor, disabled, dueAt, failures, id, refusingSince, types, url }: Endpoint): EndpointResource => ({
  id,
  url,
  types,
  state: disabled === null ? "enabled" : "disabled",
  disabledReason: disabled?.reason ?? null,
  disabledAt: disabled?.at ?? null,
  createdAt,
  lastSequence: cursor,
  failedAttempts: failures,
  refusingSince,
  nextAttemptAt: disabled === null && failures > 0 ? dueAt : null
})

const withSecret = ({ endpoint, secret }: WithSecret) => ({ ...toResource(endpoint), secret: Redacted.value(secret) })

const toEntry = ({ at, attempt, durationMillis, eventId, manual, notification, outcome, sequence }: Attempt): DeliveryResource => ({
  eventId,
  sequence,
  sandboxId: notification?.sandboxId ?? null,
  type: notification?.type ?? null,
  attempt,
  manual,
  at,
  durationMs: durationMillis,
  delivered: isDelivered(outcome),
  status: outcome._tag === "Answered" ? outcome.status : null,
  error: outcome._tag === "Failed" ? outcome.trouble : null,
  response: outcome._tag === "Answered" ? outcome.body : null
})

export const layer = HttpApiBuilder.group(
  InternalApi,
  "webhooks",
  Effect.fn(function*(handlers) {
    const webhooks = yield* Webhooks
    const grant = Effect.map(CurrentPrincipal, ({ grantId }) => grantId)

    return handlers.handleAll({
      registerWebhook: Effect.fnUntraced(function*({ payload: { types = null, url } }) {
        return withSecret(yield* webhooks.register(yield* grant, { url, types }))
      }),
      listWebhooks: Effect.fnUntraced(function*() {
        return { data: (yield* webhooks.list(yield* grant)).map(toResource) }
      }),
      getWebhook: Effect.fnUntraced(function*({ params: { endpointId } }) {
        return toResource(yield* webhooks.find(yield* grant, endpointId))
      }),
      deleteWebhook: Effect.fnUntraced(function*({ params: { endpointId } }) {
        yield* webhooks.remove(yield* grant, endpointId)
      }),
      rotateWebhookSecret: Effect.fnUntraced(function*({ params: { endpointId } }) {
        return withSecret(yield* webhooks.rotateSecret(yield* grant, endpointId))
      }),
      enableWebhook: Effect.fnUntraced(function*({ params: { endpointId } }) {
        return toResource(yield* webhooks.enable(yield* grant, endpointId))
      }),
      listWebhookDeliveries: Effect.fnUntraced(function*({ params: { endpointId }, query: { after = null, limit = MAX_LIMIT } }) {
        const { deliveries, nextCursor } = yield* webhooks.deliveries(yield* grant, endpointId, { before: after, limit })
        return { data: deliveries.map(toEntry), nextCursor: nextCursor === null ? null : String(nextCursor) }
      }),
      redeliverWebhook: Effect.fnUntraced(function*({ params: { endpointId, eventId } }) {
        yield* webhooks.redeliver(yield* grant, endpointId, eventId)
        return { eventId }
      })
    })
  })
)
