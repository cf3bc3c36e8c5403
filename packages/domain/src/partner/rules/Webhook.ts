/**
 * Webhooks: the feed of a grant, brought to its partner event by event (docs/decisions/11.4; Standard Webhooks). Pure:
 * what an endpoint is, with what its requests are signed, and what follows an attempt.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Ids, Uuid } from "../../ids/Ids.ts"
import { PartnerEvent, type PartnerFact } from "../schema/PartnerEvent.ts"

/** Every type of event that a feed tells. */
export const EVENT_TYPES = [
  "credit_claim.created",
  "credit_claim.claimed",
  "project.connected",
  "task.started",
  "pull_request.opened",
  "conversion.paid"
] as const satisfies ReadonlyArray<PartnerFact["type"]>

/** Which types an endpoint wants: one or more, each once. */
export const WantedTypes = Schema.Array(Schema.Literals(EVENT_TYPES)).check(Schema.isMinLength(1), Schema.isUnique())
export type WantedTypes = typeof WantedTypes.Type

/** Endpoints that a grant may have (ours: no partner needs more, and each is asked about at every look). */
export const MAX_ENDPOINTS = 20

/** Why an endpoint is not tried any more: it answered 410, or failed at every attempt that there is. */
export const DisabledReason = Schema.Literals(["gone", "retries_exhausted"])
export type DisabledReason = typeof DisabledReason.Type

/** How far an endpoint is. */
export interface DeliveryProgress {
  /** `sequence` of the last event that is behind it: delivered, or not wanted. The first wanted one after it is next. */
  readonly cursor: number
  /** Failed attempts at the next event, since the endpoint was last enabled. */
  readonly failures: number
  /** No attempt before. */
  readonly dueAt: DateTime.Utc
  readonly disabled: { readonly at: DateTime.Utc; readonly reason: DisabledReason } | null
}

/** Where a partner is told. */
export interface Endpoint extends DeliveryProgress {
  readonly id: Uuid
  readonly grantId: string
  /** As `WebhookSender.admit` gave it back. */
  readonly url: string
  /** `null`: every type, also those there will be. */
  readonly types: WantedTypes | null
  readonly createdAt: DateTime.Utc
}

/** Where a new endpoint starts: it is told what comes after its registration. What was before is in the feed. */
export const atHead = (head: number, at: DateTime.Utc): DeliveryProgress => ({ cursor: head, failures: 0, dueAt: at, disabled: null })

/** Enabled again, or hurried while it waits: goes on at once with the first undelivered event, with all its attempts. */
export const enabled = ({ cursor }: Pick<DeliveryProgress, "cursor">, at: DateTime.Utc): DeliveryProgress => ({
  cursor,
  failures: 0,
  dueAt: at,
  disabled: null
})

// ---------------------------------------------------------------------------------------------------------------
// Secrets

/** What requests are signed with. Kept as it is, not as a digest: nothing else can sign. */
export interface Secret {
  /** `whsec_` and base64 of 32 bytes. */
  readonly value: Redacted.Redacted
  /** Replaced, and signs along until then; `null`: the current one. */
  readonly until: DateTime.Utc | null
}

/** How long a replaced secret signs along, so that receivers have time to take up the new one (docs/decisions/11.4). */
export const SIGNS_ALONG = Duration.hours(24)

/** Replaced secrets that sign along at most, the newest ones: each makes every request longer. */
const MAX_REPLACED = 4

const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
/** Base64 of 32 bytes has 43 characters, of which the last has two bits to spare: they are 0. */
const BASE64_LAST = "AEIMQUYcgkosw048"

/** A new secret: 256 random bits. */
export const mintSecret = (ids: Pick<Ids["Service"], "random">): Effect.Effect<Redacted.Redacted> =>
  Effect.zipWith(ids.random(BASE64, 42), ids.random(BASE64_LAST, 1), (most, last) => Redacted.make(`whsec_${most}${last}=`))

/** The secrets that sign at a time, newest first. */
export const signing = (secrets: ReadonlyArray<Secret>, at: DateTime.Utc): ReadonlyArray<Secret> =>
  secrets.filter(({ until }) => until === null || DateTime.isGreaterThan(until, at))

/** `value` is the secret from now on; those before it sign along for a while. */
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
  /** The name has no address now. */
  "name_not_resolved",
  /** The name has an address that is not public. */
  "address_not_allowed",
  /** No TLS, or a certificate that is not good. */
  "tls",
  /** Refused, reset, or no HTTP. */
  "connection",
  /** Nothing was sent: the worker cannot read the event, which a newer version recorded, or which is damaged. */
  "event_unreadable",
  /** Nothing was sent: no key opens the endpoint's secret. */
  "secret_unreadable"
])
export type Trouble = typeof Trouble.Type

/** What came of sending one request. */
export type Outcome =
  | {
    readonly _tag: "Answered"
    readonly status: number
    /** Whole seconds that `Retry-After` asks to wait. */
    readonly retryAfter: number | null
    /** The beginning of the body, at most 1 KiB, as text that can be stored; `null`: there was none. */
    readonly body: string | null
  }
  | { readonly _tag: "Failed"; readonly trouble: Trouble }

/** Redirects are failures: whoever answers there is not who was registered. */
export const isDelivered = (outcome: Outcome): boolean => outcome._tag === "Answered" && outcome.status >= 200 && outcome.status < 300

/** How long a receiver has for its answer (docs/decisions/11.4). */
export const ATTEMPT_TIME = Duration.seconds(15)

/** From one attempt to the next (docs/decisions/11.4). There is one attempt more than there are waits; together they take three days. */
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

/** A wait is longer by up to this part of it, so that those who failed together do not come back together (ours). */
export const JITTER = 0.2

/** A longer `Retry-After` is ignored (docs/decisions/11.4). */
const MAX_RETRY_AFTER = Duration.hours(1)

/** What follows an attempt. */
export type Next =
  | { readonly _tag: "Delivered" }
  | { readonly _tag: "Retry"; readonly at: DateTime.Utc }
  | { readonly _tag: "Disable"; readonly reason: DisabledReason }

/**
 * What follows the `attempt`-th attempt at an event, counted from 1. `at`: when its outcome was known. `jitter`: from 0 up to
 * 1, drawn anew for each. What `Retry-After` asks for can only make a wait longer, so that no receiver uses up its attempts
 * faster than the schedule does.
 */
export const afterAttempt = (attempt: number, outcome: Outcome, at: DateTime.Utc, jitter: number): Next => {
  if (isDelivered(outcome)) return { _tag: "Delivered" }
  if (outcome._tag === "Answered" && outcome.status === 410) return { _tag: "Disable", reason: "gone" }
  const scheduled = WAITS[attempt - 1]
  if (scheduled === undefined) return { _tag: "Disable", reason: "retries_exhausted" }
  const asked = Duration.seconds(outcome._tag === "Answered" ? outcome.retryAfter ?? 0 : 0)
  const wait = Duration.isGreaterThan(asked, MAX_RETRY_AFTER) ? scheduled : Duration.max(scheduled, asked)
  return { _tag: "Retry", at: DateTime.add(at, { milliseconds: Math.ceil(Duration.toMillis(wait) * (1 + JITTER * jitter)) }) }
}

/**
 * How far an endpoint is after its `attempt`-th attempt at the event with that `sequence`, which was due at `dueAt`. `isDueAt`: when
 * the endpoint is due by now. That is another time only if it was enabled during the attempt: then nothing counts that failed before.
 */
export const standingAfter = (
  { attempt, dueAt, sequence }: { readonly attempt: number; readonly sequence: number; readonly dueAt: DateTime.Utc },
  next: Next,
  at: DateTime.Utc,
  isDueAt: DateTime.Utc
): DeliveryProgress => {
  if (next._tag !== "Delivered" && !DateTime.Equivalence(dueAt, isDueAt)) return enabled({ cursor: sequence - 1 }, isDueAt)
  switch (next._tag) {
    case "Delivered":
      return { cursor: sequence, failures: 0, dueAt: at, disabled: null }
    case "Retry":
      return { cursor: sequence - 1, failures: attempt, dueAt: next.at, disabled: null }
    case "Disable":
      return { cursor: sequence - 1, failures: attempt, dueAt: at, disabled: { at, reason: next.reason } }
  }
}

const encodeEvent = Schema.encodeSync(PartnerEvent)

/** The body of a request: the event as the feed has it, character for character. */
export const bodyOf = (event: PartnerEvent): string => JSON.stringify(encodeEvent(event))
