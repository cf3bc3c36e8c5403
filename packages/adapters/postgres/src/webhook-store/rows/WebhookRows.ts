/** Rows of webhooks as the domain's endpoints, attempts and deliveries. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Attempt, TakenAttempt } from "@slipway/domain/partner/ports/WebhookStore"
import { type Endpoint, EVENT_TYPES, type Outcome, Trouble } from "@slipway/domain/partner/rules/Webhook"
import { NotificationType } from "@slipway/domain/partner/schema/NotificationType"
import { type PartnerEvent, PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import { DateTime, Option, Schema } from "effect"
import type { Key } from "../../secret-store/SecretsKey.ts"
import { Instant } from "../../sql/Instant.ts"
import { Int8 } from "../../sql/Int8.ts"
import { decodeSecrets, openable } from "./Secrets.ts"

/** The position of an endpoint that gets nothing of the feed. Processes of earlier versions find no event after it. */
export const NO_FEED = Number.MAX_SAFE_INTEGER

export const EndpointRow = Schema.Struct({
  id: Schema.String,
  grantId: Schema.String,
  url: Schema.String,
  types: Schema.NullOr(Schema.Array(Schema.Literals(EVENT_TYPES))),
  notifications: Schema.NullOr(Schema.Array(NotificationType)),
  createdAt: Instant,
  cursor: Int8,
  failures: Schema.Int,
  dueAt: Instant,
  disabledAt: Schema.NullOr(Instant),
  disabledReason: Schema.NullOr(Schema.Literals(["gone", "retries_exhausted"])),
  silencedAt: Schema.NullOr(Instant),
  refusingSince: Schema.NullOr(Instant)
})
/** Columns of an endpoint, of the table as `e`. */
export const ENDPOINT =
  `e.id, e.grant_id AS "grantId", e.url, e.types, e.created_at AS "createdAt", e.cursor, e.failures, e.due_at AS "dueAt",
  e.disabled_at AS "disabledAt", e.disabled_reason AS "disabledReason", e.notifications, e.silenced_at AS "silencedAt",
  e.refusing_since AS "refusingSince"`

export const toEndpoint = (row: typeof EndpointRow.Type): Endpoint => {
  const { cursor, disabledAt: at, disabledReason: reason, notifications, silencedAt, types, ...rest } = row
  const isSilenced = at !== null && silencedAt !== null && DateTime.Equivalence(at, silencedAt)
  return {
    ...rest,
    types: notifications === null ? types : [...types ?? [], ...notifications],
    cursor: types === null && notifications !== null ? 0 : cursor,
    disabled: at === null || reason === null ? null : { at, reason: isSilenced ? "not_accepting" : reason }
  }
}

/** Why an attempt was not made, beside `trouble`, whose values processes of the version before know. */
const Unread = Schema.Literals(["event_unreadable", "secret_unreadable"])
export type Unread = typeof Unread.Type

export const DeliveryRow = Schema.Struct({
  position: Int8,
  eventId: Schema.String,
  sequence: Int8,
  attempt: Schema.Int,
  manual: Schema.Boolean,
  at: Instant,
  durationMillis: Schema.Int,
  status: Schema.NullOr(Schema.Int),
  retryAfter: Schema.NullOr(Schema.Int),
  body: Schema.NullOr(Schema.String),
  trouble: Schema.NullOr(Trouble),
  unread: Schema.NullOr(Unread),
  sandboxId: Schema.NullOr(SandboxId),
  type: Schema.NullOr(NotificationType)
})

export const toDelivery = (
  { body, retryAfter, sandboxId, status, trouble, type, unread, ...row }: typeof DeliveryRow.Type
): Attempt => ({
  ...row,
  notification: sandboxId === null || type === null ? null : { sandboxId, type },
  outcome: status === null ? { _tag: "Failed", trouble: unread ?? trouble ?? "connection" } : { _tag: "Answered", status, retryAfter, body }
})

/** The columns of an attempt's outcome. */
export const columnsOf = (outcome: Outcome) => {
  if (outcome._tag === "Answered") {
    return { status: outcome.status, retry_after: outcome.retryAfter, body: outcome.body, trouble: null, unread: null }
  }
  const unread = Schema.is(Unread)(outcome.trouble) ? outcome.trouble : null
  return { status: null, retry_after: null, body: null, trouble: unread === null ? outcome.trouble : "connection", unread }
}

/** An attempt that was taken. */
export const ClaimedRow = Schema.Struct({
  endpointId: Schema.String,
  url: Schema.String,
  // Decoded row by row, as the event is.
  secrets: Schema.Unknown,
  failures: Schema.Int,
  dueAt: Instant,
  fence: Int8,
  eventId: Schema.NullOr(Schema.String),
  sequence: Schema.NullOr(Int8),
  type: Schema.NullOr(Schema.String),
  data: Schema.Unknown,
  recordedAt: Schema.NullOr(Instant)
})
const decodeFact = Schema.decodeUnknownOption(PartnerFact)

/** An attempt that was taken and cannot be made: its event or its secret cannot be read. */
export interface Unreadable extends Omit<TakenAttempt, "event" | "secrets"> {
  readonly event: Pick<PartnerEvent, "id" | "sequence">
  readonly trouble: Unread
}

/** `null`: the endpoint wants none of the new events. */
export const toClaimed = (row: typeof ClaimedRow.Type, manual: boolean, key: Key): TakenAttempt | Unreadable | null => {
  const { data, dueAt, endpointId, eventId: id, failures, fence, recordedAt: createdAt, sequence, type, url } = row
  if (id === null || sequence === null || createdAt === null) return null
  const taken = { endpointId, url, attempt: manual ? 1 : failures + 1, manual, dueAt, fence }
  const fact = decodeFact({ type, data })
  if (Option.isNone(fact)) return { ...taken, event: { id, sequence }, trouble: "event_unreadable" }
  const secrets = Option.match(decodeSecrets(row.secrets), { onNone: () => [], onSome: (stored) => openable(stored, endpointId, key) })
  if (!secrets.some(({ until }) => until === null)) return { ...taken, event: { id, sequence }, trouble: "secret_unreadable" }
  return { ...taken, secrets, event: { ...fact.value, id, sequence, createdAt } }
}
