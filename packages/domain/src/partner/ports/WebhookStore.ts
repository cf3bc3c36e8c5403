/** Port: endpoints of webhooks, how far each is, and the log of their deliveries. Checked by `WebhookStoreContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Action, SecurityEvent } from "../../access/ports/AuditLog.ts"
import type { Uuid } from "../../ids/Ids.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { type Endpoint, MAX_ENDPOINTS, type Next, type Outcome, type Secret } from "../rules/Webhook.ts"
import type { PartnerEvent } from "../schema/PartnerEvent.ts"

/** No endpoint of the grant has this id. Another grant's is as unknown. */
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

/** The grant has as many endpoints as it may have. One has to be deleted first. */
export class TooManyEndpoints extends Schema.TaggedError<TooManyEndpoints>()("TooManyEndpoints", {}) {
  override get message() {
    return `A grant may have ${MAX_ENDPOINTS} webhook endpoints.`
  }
}

/** An endpoint as its grant names it. */
export interface EndpointKey {
  readonly grantId: string
  readonly id: Uuid
}

/** One attempt, in the log. */
export interface Attempt {
  /** Greater than that of every earlier one of the endpoint; a page goes on below it. */
  readonly position: number
  readonly eventId: Uuid
  /** The event's, in the feed. */
  readonly sequence: number
  /** Which attempt at the event it was, from 1; 1 for a manual one. */
  readonly attempt: number
  /** Asked for by somebody, beside the line of the feed. */
  readonly manual: boolean
  /** When it began. */
  readonly at: DateTime.Utc
  /** Whole milliseconds. */
  readonly durationMillis: number
  readonly outcome: Outcome
}

/** A worker's right to make one attempt, for {@link TAKEN_TIME}. */
export interface TakenAttempt {
  readonly endpointId: Uuid
  readonly url: string
  readonly secrets: ReadonlyArray<Secret>
  readonly event: PartnerEvent
  readonly attempt: number
  readonly manual: boolean
  /** When its endpoint was due as it was taken; see `standingAfter`. */
  readonly dueAt: DateTime.Utc
  /** Grows each time it is taken. A record with an old one changes nothing. */
  readonly fence: number
}

/** Longer than an attempt with all around it can take. A worker that died keeps the endpoint waiting for so long. */
export const TAKEN_TIME = Duration.minutes(1)

/** How long the log is kept (ours). */
export const LOG_RETENTION = Duration.days(30)

/** The entry of something that happened to an endpoint. */
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
 * Checked by `WebhookStoreContract`. Of an endpoint, one event at a time is taken, in the order of the feed, and
 * the next one only once it is delivered. Times of retries are the caller's, what is taken is held by the store's own time. What
 * changes an endpoint is in the audit log.
 */
export class WebhookStore extends Context.Service<WebhookStore, {
  /** At the head of the grant's feed. */
  register(
    endpoint: Pick<Endpoint, "id" | "grantId" | "url" | "types" | "createdAt">,
    secret: Redacted.Redacted
  ): Effect.Effect<Endpoint, TooManyEndpoints | StoreUnavailable>
  /** Oldest first. */
  list(grantId: string): Effect.Effect<ReadonlyArray<Endpoint>, StoreUnavailable>
  find(key: EndpointKey): Effect.Effect<Endpoint, EndpointNotFound | StoreUnavailable>
  /** With its log. Nothing more is sent, but for what is on its way. */
  remove(key: EndpointKey, at: DateTime.Utc): Effect.Effect<void, EndpointNotFound | StoreUnavailable>
  /** From the next attempt on. Secrets before it sign along as `rotated` says. */
  rotate(key: EndpointKey, secret: Redacted.Redacted, at: DateTime.Utc): Effect.Effect<Endpoint, EndpointNotFound | StoreUnavailable>
  /** See `enabled`, and of an attempt that is under way `standingAfter`. Safe to call twice. */
  enable(key: EndpointKey, at: DateTime.Utc): Effect.Effect<Endpoint, EndpointNotFound | StoreUnavailable>
  /** The log, newest first, below the position `before`; `null`: from its end. */
  deliveries(
    key: EndpointKey,
    page: { readonly before: number | null; readonly limit: number }
  ): Effect.Effect<ReadonlyArray<Attempt>, EndpointNotFound | StoreUnavailable>
  /**
   * Has one event of the grant's feed sent once more, beside the line and whatever the endpoint's standing, types included.
   * One that waits already waits once.
   */
  redeliver(
    key: EndpointKey,
    eventId: Uuid,
    at: DateTime.Utc
  ): Effect.Effect<void, EndpointNotFound | PartnerEventNotFound | StoreUnavailable>
  /**
   * Up to `limit` attempts that are due, for this caller alone. Nothing of an endpoint that is disabled, whose grant is
   * revoked or whose organization is suspended. Manual ones, one of an endpoint at a time, get what the line leaves: that
   * is half of it while they wait, so that nobody who asks for much keeps others from their events.
   *
   * One that cannot be read is not given out and keeps no other from being so: it is recorded as a failed attempt (`event_unreadable`,
   * `secret_unreadable`), so it is tried again when others may have been upgraded, and disables its endpoint after the last attempt.
   */
  take(now: DateTime.Utc, limit: number): Effect.Effect<ReadonlyArray<TakenAttempt>, StoreUnavailable>
  /**
   * Logs the attempt and moves its endpoint on as `standingAfter` says; a manual one is only logged. `false`: what was taken was
   * another's by then, or the endpoint is deleted; nothing was changed.
   */
  record(
    taken: TakenAttempt,
    attempt: Pick<Attempt, "at" | "durationMillis" | "outcome">,
    next: Next,
    at: DateTime.Utc
  ): Effect.Effect<boolean, StoreUnavailable>
  /** Forgets up to `limit` attempts of the log that began before `before`; how many there were. */
  purge(before: DateTime.Utc, limit: number): Effect.Effect<number, StoreUnavailable>
}>()("@slipway/domain/WebhookStore") {
}
