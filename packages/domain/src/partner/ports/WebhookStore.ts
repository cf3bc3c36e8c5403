/** Port: webhook endpoints, their progress, and the log of deliveries. Checked by `WebhookStoreContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Action, SecurityEvent } from "../../access/ports/AuditLog.ts"
import type { Uuid } from "../../ids/Ids.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { NextOfLine, Notification } from "../rules/Notification.ts"
import { type Endpoint, MAX_ENDPOINTS, type Next, type Outcome, type Secret } from "../rules/Webhook.ts"
import type { NotificationType } from "../schema/NotificationType.ts"
import type { PartnerEvent } from "../schema/PartnerEvent.ts"

/** The grant has no endpoint with this id. An endpoint of another grant gives the same error. */
export class EndpointNotFound extends Schema.TaggedError<EndpointNotFound>()("EndpointNotFound", {}) {
  override get message() {
    return "There is no such webhook endpoint."
  }
}

/** The grant's feed has no such event. */
export class PartnerEventNotFound extends Schema.TaggedError<PartnerEventNotFound>()("PartnerEventNotFound", {}) {
  override get message() {
    return "There is no such event."
  }
}

/** The grant is at its limit of endpoints. Deleting an endpoint helps. */
export class TooManyEndpoints extends Schema.TaggedError<TooManyEndpoints>()("TooManyEndpoints", {}) {
  override get message() {
    return `A grant may have ${MAX_ENDPOINTS} webhook endpoints.`
  }
}

/** The name of an endpoint in its grant. */
export interface EndpointKey {
  readonly grantId: string
  readonly id: Uuid
}

/** One attempt in the log. */
export interface Attempt {
  /** Greater than the positions of the endpoint's earlier attempts. The next page has lower positions. */
  readonly position: number
  /** The `webhook-id`. */
  readonly eventId: Uuid
  /** The event's position in the feed, or in the log of its sandbox. */
  readonly sequence: number
  /** `null`: an event of the feed. */
  readonly notification: { readonly sandboxId: SandboxId; readonly type: NotificationType } | null
  /** The number of the attempt at this event, from 1; 1 for a manual attempt. */
  readonly attempt: number
  /** Requested by a person or program, outside the order of the feed. */
  readonly manual: boolean
  /** The start of the attempt. */
  readonly at: DateTime.Utc
  /** Whole milliseconds. */
  readonly durationMillis: number
  readonly outcome: Outcome
}

interface Taken {
  readonly endpointId: Uuid
  readonly url: string
  readonly secrets: ReadonlyArray<Secret>
  readonly attempt: number
  readonly manual: boolean
  /** The due time of its endpoint, or of its line, when the attempt was taken; see `standingAfter` and `lineAfter`. */
  readonly dueAt: DateTime.Utc
  /** Grows with each take. A record with an old fence changes nothing. */
  readonly fence: number
}

/** A worker's right to make one attempt at an event of a feed, for {@link TAKEN_TIME}. */
export interface TakenAttempt extends Taken {
  readonly event: PartnerEvent
}

/** A worker's right to make one attempt at a notification, for {@link TAKEN_TIME}. */
export interface TakenNotification extends Taken {
  readonly notification: Notification
}

/** Longer than any attempt. After the death of a worker its endpoint waits for this time. */
export const TAKEN_TIME = Duration.minutes(1)

/** How long attempts are kept in the log, and notifications for delivery (our choice). */
export const LOG_RETENTION = Duration.days(30)

/** The security event for a change of an endpoint. */
export const told = (
  action: Action,
  { grantId, id }: EndpointKey,
  at: DateTime.Utc,
  more: Readonly<Record<string, string>> = {}
): SecurityEvent => ({
  action,
  at,
  subjects: { endpointId: id, grantId, ...more }
})

/**
 * Checked by `WebhookStoreContract`. An endpoint gets one event at a time in feed order, and the next event only after delivery.
 * Beside the feed it gets notifications: of each sandbox one at a time, in the order of its log, and of many sandboxes at once. The store
 * of sandboxes queues them in the transaction of the event. Callers give the times of retries; the store's clock limits takes. Changes
 * of endpoints are in the audit log.
 */
export class WebhookStore extends Context.Service<WebhookStore, {
  /** Registers an endpoint at the head of the grant's feed. */
  register(
    endpoint: Pick<Endpoint, "id" | "grantId" | "url" | "types" | "createdAt">,
    secret: Redacted.Redacted
  ): Effect.Effect<Endpoint, TooManyEndpoints | StoreUnavailable>
  /** Oldest first. */
  list(grantId: string): Effect.Effect<ReadonlyArray<Endpoint>, StoreUnavailable>
  find(key: EndpointKey): Effect.Effect<Endpoint, EndpointNotFound | StoreUnavailable>
  /** Removes the endpoint and its log. Only attempts that are running may still arrive. */
  remove(key: EndpointKey, at: DateTime.Utc): Effect.Effect<void, EndpointNotFound | StoreUnavailable>
  /** Replaces the secret from the next attempt on. Earlier secrets also sign for a time, see `rotated`. */
  rotate(key: EndpointKey, secret: Redacted.Redacted, at: DateTime.Utc): Effect.Effect<Endpoint, EndpointNotFound | StoreUnavailable>
  /** See `enabled`, and for a running attempt `standingAfter`. Safe to repeat. */
  enable(key: EndpointKey, at: DateTime.Utc): Effect.Effect<Endpoint, EndpointNotFound | StoreUnavailable>
  /** The log, newest first, below the position `before`; `null`: from the end. */
  deliveries(
    key: EndpointKey,
    page: { readonly before: number | null; readonly limit: number }
  ): Effect.Effect<ReadonlyArray<Attempt>, EndpointNotFound | StoreUnavailable>
  /**
   * Sends one event of the grant's feed again, outside the order, whatever the endpoint's state and types; or a notification that the
   * endpoint's log has and that is still kept. A redelivery that is already waiting is not added twice.
   */
  redeliver(
    key: EndpointKey,
    eventId: Uuid,
    at: DateTime.Utc
  ): Effect.Effect<void, EndpointNotFound | PartnerEventNotFound | StoreUnavailable>
  /**
   * Takes up to `limit` due attempts for this caller. Endpoints that are disabled, of revoked grants or of suspended organizations are
   * skipped. While manual attempts wait, they get up to half of the limit, one of an endpoint at a time, so that many requests cannot
   * delay other endpoints' events.
   *
   * An attempt that cannot be read is not returned and does not block others. It is recorded as failed (`event_unreadable`,
   * `secret_unreadable`). So it is retried later, when workers may have been upgraded, and disables its endpoint after the last
   * attempt.
   */
  take(now: DateTime.Utc, limit: number): Effect.Effect<ReadonlyArray<TakenAttempt>, StoreUnavailable>
  /**
   * Logs the attempt and moves its endpoint on as `standingAfter` says. A manual attempt is only logged. `false`: another caller had
   * taken the attempt, or the endpoint is deleted; nothing was changed.
   */
  record(
    taken: TakenAttempt,
    attempt: Pick<Attempt, "at" | "durationMillis" | "outcome">,
    next: Next,
    at: DateTime.Utc
  ): Effect.Effect<boolean, StoreUnavailable>
  /** Deletes up to `limit` attempts that began before `before`, and returns their number. */
  purge(before: DateTime.Utc, limit: number): Effect.Effect<number, StoreUnavailable>
  /**
   * Takes up to `limit` due notifications for this caller, as `take` does: the next one of each line. Of one endpoint at most
   * `MAX_AT_ENDPOINT` are under way, `MAX_AT_REFUSING` while it accepts nothing, and of a grant `MAX_OF_GRANT`. All grants get one before
   * a grant gets another. Manual attempts get up to half of the limit, one of an endpoint at a time.
   */
  takeNotifications(now: DateTime.Utc, limit: number): Effect.Effect<ReadonlyArray<TakenNotification>, StoreUnavailable>
  /** Logs the attempt, moves its line on as `lineAfter` says, and its endpoint as `standingOf` says. Otherwise as `record`. */
  recordNotification(
    taken: TakenNotification,
    attempt: Pick<Attempt, "at" | "durationMillis" | "outcome">,
    next: NextOfLine,
    at: DateTime.Utc
  ): Effect.Effect<boolean, StoreUnavailable>
  /**
   * Deletes up to `limit` notifications before `before`, delivered or not, and of grants with more than `MAX_QUEUED_OF_GRANT` the oldest;
   * returns their number. Notifications also go with the events of their sandbox.
   */
  purgeNotifications(before: DateTime.Utc, limit: number): Effect.Effect<number, StoreUnavailable>
}>()("@slipway/domain/WebhookStore") {
}
