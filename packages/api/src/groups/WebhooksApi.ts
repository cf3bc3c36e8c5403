/** The webhook endpoints of a key's grant (docs/decisions/11.4). Not part of the public interface and its document. */
import { DisabledReason, Trouble, WantedTypes } from "@slipway/domain/partner/rules/Webhook"
import { AnyUuid } from "@slipway/domain/partner/schema/Attribution"
import { NotificationType } from "@slipway/domain/partner/schema/NotificationType"
import { Counter, text } from "@slipway/domain/text/Text"
import { Timestamp } from "@slipway/domain/time/Timestamp"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { EndpointNotFound, InvalidCursor, PartnerEventNotFound, TargetRefused, TooManyEndpoints } from "../shared/Errors.ts"
import { Authenticated, JsonBody } from "../shared/Middleware.ts"
import { Cursor, Limit } from "../shared/Parameters.ts"
import { Area, NeededScope } from "../shared/Routing.ts"

const endpoint = {
  id: Schema.String,
  url: Schema.String,
  /** `null`: every type of the feed, and no notification. */
  types: Schema.NullOr(WantedTypes),
  state: Schema.Literals(["enabled", "disabled"]),
  disabledReason: Schema.NullOr(DisabledReason),
  disabledAt: Schema.NullOr(Timestamp),
  createdAt: Timestamp,
  /** `sequence` of the last event of the feed that was delivered, or not wanted; 0 with notifications alone. */
  lastSequence: Counter,
  /** At the event after it. */
  failedAttempts: Counter,
  /** When a notification failed first since anything was accepted; `null`: none did. */
  refusingSince: Schema.NullOr(Timestamp),
  /** `null` unless an attempt failed and another one follows. */
  nextAttemptAt: Schema.NullOr(Timestamp)
}

/** A webhook endpoint without its secret. */
export const EndpointResource = Schema.Struct(endpoint).annotate({ identifier: "WebhookEndpoint" })
/** The decoded endpoint. */
export type EndpointResource = typeof EndpointResource.Type

/** The only reply that holds the secret. */
const EndpointWithSecret = Schema.Struct({ ...endpoint, secret: Schema.String }).annotate({ identifier: "WebhookEndpointWithSecret" })

/** One attempt to deliver an event. Attempts are kept for 30 days. */
export const DeliveryResource = Schema.Struct({
  /** The `webhook-id`. */
  eventId: Schema.String,
  /** In the feed, or in the log of the sandbox. */
  sequence: Counter,
  /** The sandbox of a notification; `null`: an event of the feed. */
  sandboxId: Schema.NullOr(Schema.String),
  /** The type of a notification. */
  type: Schema.NullOr(NotificationType),
  attempt: Counter,
  manual: Schema.Boolean,
  at: Timestamp,
  durationMs: Counter,
  delivered: Schema.Boolean,
  /** Status of the answer; `null`: there was no answer, and `error` says why. */
  status: Schema.NullOr(Schema.Int),
  error: Schema.NullOr(Trouble),
  /** The beginning of the answer's body. */
  response: Schema.NullOr(Schema.String)
}).annotate({ identifier: "WebhookDelivery" })
/** The decoded attempt. */
export type DeliveryResource = typeof DeliveryResource.Type

const ofEndpoint = { endpointId: AnyUuid }

/** Endpoints, their secrets and attempts. Needs the scope `webhooks`. */
export class WebhooksApi extends HttpApiGroup.make("webhooks", { topLevel: true })
  .add(
    HttpApiEndpoint.post("registerWebhook", "/", {
      payload: Schema.Struct({ url: text(1, 2000), types: Schema.optionalKey(WantedTypes) }).annotate({ identifier: "RegisterWebhook" }),
      success: EndpointWithSecret.pipe(HttpApiSchema.status(201)),
      error: [TargetRefused, TooManyEndpoints]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Register an endpoint",
      description: "It is told of events after its registration: of the feed, or of those of the feed and of sandboxes that `types` has. " +
        "`secret` is shown only now."
    })),
    HttpApiEndpoint.get("listWebhooks", "/", {
      success: Schema.Struct({ data: Schema.Array(EndpointResource) }).annotate({ identifier: "WebhookEndpointList" })
    }).annotateMerge(OpenApi.annotations({ summary: "List endpoints", description: "All of the grant, oldest first." })),
    HttpApiEndpoint.get("getWebhook", "/:endpointId", {
      params: ofEndpoint,
      success: EndpointResource,
      error: EndpointNotFound
    }).annotateMerge(OpenApi.annotations({ summary: "Get an endpoint", description: "The endpoint as it is now." })),
    HttpApiEndpoint.delete("deleteWebhook", "/:endpointId", {
      params: ofEndpoint,
      success: HttpApiSchema.NoContent,
      error: EndpointNotFound
    }).annotateMerge(OpenApi.annotations({
      summary: "Delete an endpoint",
      description: "With its log. Nothing more is sent, but for a request that is under way."
    })),
    HttpApiEndpoint.post("rotateWebhookSecret", "/:endpointId/rotate-secret", {
      params: ofEndpoint,
      success: EndpointWithSecret,
      error: EndpointNotFound
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Replace the secret",
      description: "`secret` is the new one and shown only now. The one before it signs along for 24 hours."
    })),
    HttpApiEndpoint.post("enableWebhook", "/:endpointId/enable", {
      params: ofEndpoint,
      success: EndpointResource,
      error: EndpointNotFound
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Enable an endpoint",
      description: "It goes on at once with the first undelivered event, whether it was disabled or waits for a retry."
    })),
    HttpApiEndpoint.get("listWebhookDeliveries", "/:endpointId/deliveries", {
      params: ofEndpoint,
      query: { after: Schema.optionalKey(Cursor), limit: Schema.optionalKey(Limit) },
      success: Schema.Struct({
        data: Schema.Array(DeliveryResource),
        nextCursor: Schema.NullOr(Schema.String)
      }).annotate({ identifier: "WebhookDeliveryPage" }),
      error: [InvalidCursor.schema, EndpointNotFound]
    }).annotateMerge(OpenApi.annotations({
      summary: "List attempts",
      description: "Newest first, of the last 30 days. `nextCursor` is the `after` of the next page, `null` on the last one."
    })),
    HttpApiEndpoint.post("redeliverWebhook", "/:endpointId/deliveries/:eventId/redeliver", {
      params: { ...ofEndpoint, eventId: AnyUuid },
      success: Schema.Struct({ eventId: Schema.String }).annotate({ identifier: "WebhookRedelivery" }).pipe(HttpApiSchema.status(202)),
      error: [EndpointNotFound, PartnerEventNotFound]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Send one event again",
      description: "Once, within about a second, beside the ordered line, under the same `webhook-id`. The log tells what came of it. " +
        "Any event of the feed, or a notification that the log has and that is still kept."
    }))
  )
  .prefix("/api/internal/v1/webhook-endpoints")
  .middleware(Authenticated)
  .annotate(NeededScope, "webhooks")
  .annotate(Area, "internal")
  .annotateMerge(
    OpenApi.annotations({
      title: "Webhooks",
      description: "Where a grant is told of the events of its feed and its sandboxes. Need the scope `webhooks`."
    })
  )
{}
