/**
 * Webhooks deliver the feed of a grant to its partner, event by event (docs/decisions/11.4; Standard Webhooks). Pure: endpoints,
 * secrets of signatures, and what follows an attempt.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Ids, Uuid } from "../../ids/Ids.ts"
import { NOTIFICATION_TYPES, type NotificationType } from "../schema/NotificationType.ts"
import { PartnerEvent, type PartnerFact } from "../schema/PartnerEvent.ts"

/** Every type of event in feeds. */
export const EVENT_TYPES = [
  "credit_claim.created",
  "credit_claim.claimed",
  "project.connected",
  "task.started",
  "pull_request.opened",
  "conversion.paid"
] as const satisfies ReadonlyArray<PartnerFact["type"]>

/** The types that an endpoint wants, of its grant's feed and of notifications: one or more, each once. */
export const WantedTypes = Schema.Array(Schema.Literals([...EVENT_TYPES, ...NOTIFICATION_TYPES])).check(
  Schema.isMinLength(1),
  Schema.isUnique()
)
export type WantedTypes = typeof WantedTypes.Type

/** The wanted types of the feed; `null`: all of them, including future ones. Empty: none, the endpoint gets notifications alone. */
export const feedTypes = (types: WantedTypes | null): ReadonlyArray<PartnerFact["type"]> | null =>
  types?.filter((type): type is PartnerFact["type"] => EVENT_TYPES.some((known) => known === type)) ?? null

/** The wanted types of notifications. */
export const wantedNotifications = (types: WantedTypes | null): ReadonlyArray<NotificationType> =>
  types?.filter((type): type is NotificationType => NOTIFICATION_TYPES.some((known) => known === type)) ?? []

/** Endpoints of a grant (our choice: partners need no more, and every look for work checks each of them). */
export const MAX_ENDPOINTS = 20

/**
 * Why an endpoint is disabled: it answered 410, every attempt at an event of the feed failed, or it accepted nothing for
 * `REFUSING_TIME`.
 */
export const DisabledReason = Schema.Literals(["gone", "retries_exhausted", "not_accepting"])
export type DisabledReason = typeof DisabledReason.Type

/** The progress of an endpoint. */
export interface DeliveryProgress {
  /**
   * `sequence` of the last finished event: delivered, or of an unwanted type. The next wanted event follows it. 0 for an endpoint that
   * wants notifications alone.
   */
  readonly cursor: number
  /** Failed attempts at the next event since the endpoint was last enabled. */
  readonly failures: number
  /** The earliest time of the next attempt. */
  readonly dueAt: DateTime.Utc
  readonly disabled: { readonly at: DateTime.Utc; readonly reason: DisabledReason } | null
}

/** The receiver of a partner's webhooks. */
export interface Endpoint extends DeliveryProgress {
  readonly id: Uuid
  readonly grantId: string
  /** As `WebhookSender.admit` returned it. */
  readonly url: string
  /** Types of the feed first. `null`: every type of the feed, including future ones, and no notification. */
  readonly types: WantedTypes | null
  readonly createdAt: DateTime.Utc
  /** When a notification failed first since the endpoint accepted anything or was enabled; `null`: none did. */
  readonly refusingSince: DateTime.Utc | null
}

/** The progress of a new endpoint: it gets events after its registration. Earlier events are in the feed. */
export const atHead = (head: number, at: DateTime.Utc, types: WantedTypes | null = null): DeliveryProgress => ({
  cursor: feedTypes(types)?.length === 0 ? 0 : head,
  failures: 0,
  dueAt: at,
  disabled: null
})

/** Enables an endpoint, or ends its wait for a retry. It continues at once with the first undelivered event and all attempts. */
export const enabled = ({ cursor }: Pick<DeliveryProgress, "cursor">, at: DateTime.Utc): DeliveryProgress => ({
  cursor,
  failures: 0,
  dueAt: at,
  disabled: null
})

// ---------------------------------------------------------------------------------------------------------------
// Secrets

/** A secret that signs requests. It is stored itself, because a digest cannot sign. */
export interface Secret {
  /** `whsec_` and base64 of 32 bytes. */
  readonly value: Redacted.Redacted
  /** The time until which a replaced secret still signs; `null`: the current secret. */
  readonly until: DateTime.Utc | null
}

/** How long a replaced secret still signs, so that receivers can change to the new one (docs/decisions/11.4). */
export const SIGNS_ALONG = Duration.hours(24)

/** Replaced secrets that still sign, the newest ones. Each makes every request longer. */
const MAX_REPLACED = 4

const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
/** Base64 of 32 bytes has 43 characters. The last two bits of the last character are 0. */
const BASE64_LAST = "AEIMQUYcgkosw048"

/** A new secret: 256 random bits. */
export const mintSecret = (ids: Pick<Ids["Service"], "random">): Effect.Effect<Redacted.Redacted> =>
  Effect.zipWith(ids.random(BASE64, 42), ids.random(BASE64_LAST, 1), (most, last) => Redacted.make(`whsec_${most}${last}=`))

/** The secrets that sign at a time, newest first. */
export const signing = (secrets: ReadonlyArray<Secret>, at: DateTime.Utc): ReadonlyArray<Secret> =>
  secrets.filter(({ until }) => until === null || DateTime.isGreaterThan(until, at))

/** Makes `value` the current secret. The secrets before it still sign for a time. */
export const rotated = (secrets: ReadonlyArray<Secret>, value: Redacted.Redacted, at: DateTime.Utc): ReadonlyArray<Secret> => [
  { value, until: null },
  ...signing(secrets, at)
    .map((secret) => ({ ...secret, until: secret.until ?? DateTime.addDuration(at, SIGNS_ALONG) }))
    .slice(0, MAX_REPLACED)
]

// ---------------------------------------------------------------------------------------------------------------
// Attempts

/** Why there was no answer. */
export const Trouble = Schema.Literals([
  "timeout",
  /** The name does not resolve now. */
  "name_not_resolved",
  /** An address of the name is not public. */
  "address_not_allowed",
  /** No TLS, or an invalid certificate. */
  "tls",
  /** Connection refused or reset, or no HTTP answer. */
  "connection",
  /** Nothing was sent: the worker cannot read the event, because a newer version wrote it or it is damaged. */
  "event_unreadable",
  /** Nothing was sent: no key decrypts the endpoint's secret. */
  "secret_unreadable"
])
export type Trouble = typeof Trouble.Type

/** The outcome of one request. */
export type Outcome =
  | {
    readonly _tag: "Answered"
    readonly status: number
    /** The whole seconds of `Retry-After`; `null`: none. */
    readonly retryAfter: number | null
    /** The first 1 KiB of the body as storable text; `null`: no body. */
    readonly body: string | null
  }
  | { readonly _tag: "Failed"; readonly trouble: Trouble }

/** Whether the receiver accepted the event. A redirect is a failure, because the target of a redirect was never registered. */
export const isDelivered = (outcome: Outcome): boolean => outcome._tag === "Answered" && outcome.status >= 200 && outcome.status < 300

/** The time limit of a receiver's answer (docs/decisions/11.4). */
export const ATTEMPT_TIME = Duration.seconds(15)

/** The waits between attempts (docs/decisions/11.4), together 75 h 35 min without jitter. There is one attempt more than waits. */
export const WAITS: ReadonlyArray<Duration.Duration> = [
  Duration.seconds(5),
  Duration.minutes(5),
  Duration.minutes(30),
  Duration.hours(2),
  Duration.hours(5),
  Duration.hours(10),
  Duration.hours(14),
  Duration.hours(20),
  Duration.hours(24)
]

/** Each wait is longer by a random part of up to this, so that endpoints that failed together do not retry together (our choice). */
export const JITTER = 0.2

/** A longer `Retry-After` is ignored (docs/decisions/11.4). */
const MAX_RETRY_AFTER = Duration.hours(1)

/** The step after an attempt. */
export type Next =
  | { readonly _tag: "Delivered" }
  | { readonly _tag: "Retry"; readonly at: DateTime.Utc }
  | { readonly _tag: "Disable"; readonly reason: DisabledReason }

/**
 * The step after the `attempt`-th attempt at an event, counted from 1. `at`: the time of its outcome. `jitter`: a new random number
 * from 0 up to 1. `Retry-After` can only lengthen a wait, so that no receiver uses up its attempts early.
 */
export const afterAttempt = (attempt: number, outcome: Outcome, at: DateTime.Utc, jitter: number): Next => {
  if (isDelivered(outcome)) return { _tag: "Delivered" }
  if (outcome._tag === "Answered" && outcome.status === 410) return { _tag: "Disable", reason: "gone" }
  const scheduled = WAITS[attempt - 1]
  if (scheduled === undefined) return { _tag: "Disable", reason: "retries_exhausted" }
  const asked = outcome._tag === "Answered" && outcome.retryAfter !== null ? Duration.seconds(outcome.retryAfter) : scheduled
  const wait = Duration.isGreaterThan(asked, MAX_RETRY_AFTER) ? scheduled : Duration.max(scheduled, asked)
  return { _tag: "Retry", at: DateTime.add(at, { milliseconds: Math.ceil(Duration.toMillis(wait) * (1 + JITTER * jitter)) }) }
}

/**
 * The endpoint's progress after its `attempt`-th attempt at the event with that `sequence`, which was due at `dueAt`. `present`: the
 * endpoint as it is now. It is due at another time only if it was enabled during the attempt; then earlier failures do not count. An
 * endpoint that a notification disabled during the attempt stays disabled.
 */
export const standingAfter = (
  { attempt, dueAt, sequence }: { readonly attempt: number; readonly sequence: number; readonly dueAt: DateTime.Utc },
  next: Next,
  at: DateTime.Utc,
  present: Pick<DeliveryProgress, "disabled" | "dueAt">
): DeliveryProgress => {
  const { disabled } = present
  if (next._tag !== "Delivered" && !DateTime.Equivalence(dueAt, present.dueAt)) {
    return { ...enabled({ cursor: sequence - 1 }, present.dueAt), disabled }
  }
  switch (next._tag) {
    case "Delivered":
      return { cursor: sequence, failures: 0, dueAt: at, disabled }
    case "Retry":
      return { cursor: sequence - 1, failures: attempt, dueAt: next.at, disabled }
    case "Disable":
      return { cursor: sequence - 1, failures: attempt, dueAt: at, disabled: disabled ?? { at, reason: next.reason } }
  }
}

const encodeEvent = Schema.encodeSync(PartnerEvent)

/** The body of a request: the same JSON as in the feed. */
export const bodyOf = (event: PartnerEvent): string => JSON.stringify(encodeEvent(event))
