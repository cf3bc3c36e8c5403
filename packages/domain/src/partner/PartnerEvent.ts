/** What the feed of a grant tells (interface 2.7, 6.2): six types of events, each with exactly its payload. */
import { Schema, Tuple } from "effect"
import { Counter, text } from "../Text.ts"
import { Timestamp } from "../Timestamp.ts"

/** A UUID, as it came. */
export const Uuid = Schema.String.check(Schema.isUUID())

/** Whole credits. */
export const CreditAmount = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }))

/** The offer that a claim came from. */
const lead = { claimId: Uuid, leadId: text(1, 200), variant: text(1, 200) }

const claim = {
  ...lead,
  creditAmount: CreditAmount,
  createdAt: Timestamp
}
/** `occurredAt`: when it happened, which may be long before it was recorded. */
const attributed = { ...lead, occurredAt: Timestamp }

const fact = <const T extends string, const F extends Schema.Struct.Fields>(type: T, data: F) =>
  Schema.Struct({ type: Schema.Literal(type), data: Schema.Struct(data) })

/** What happened, before it has its place in a feed. */
export const PartnerFact = Schema.Union([
  fact("credit_claim.created", { ...claim, status: Schema.Literal("pending"), claimedAt: Schema.Null }),
  fact("credit_claim.claimed", { ...claim, status: Schema.Literal("claimed"), claimedAt: Timestamp }),
  fact("project.connected", { ...attributed, projectId: Schema.String }),
  fact("task.started", { ...attributed, taskId: Schema.String, projectId: Schema.NullOr(Schema.String) }),
  fact("pull_request.opened", {
    ...attributed,
    pullRequestId: Schema.String,
    taskId: Schema.String,
    projectId: Schema.NullOr(Schema.String)
  }),
  fact("conversion.paid", { ...attributed, conversionId: Schema.String })
])
export type PartnerFact = typeof PartnerFact.Type

/** A fact as the feed and webhooks tell it (interface 2.7). */
export const PartnerEvent = PartnerFact.mapMembers(Tuple.map(Schema.fieldsAssign({
  /** Given when it is recorded: the same in every delivery and every reading. */
  id: Uuid,
  /** From 1, without gaps, within the grant. */
  sequence: Counter.check(Schema.isGreaterThanOrEqualTo(1)),
  /** When it was recorded. */
  createdAt: Timestamp
}))).annotate({ identifier: "PartnerEvent" })
export type PartnerEvent = typeof PartnerEvent.Type

/** What a fact is about. A feed tells each type once of it. */
export const naturalId = ({ data, type }: PartnerFact): string => {
  switch (type) {
    case "credit_claim.created":
    case "credit_claim.claimed":
      return data.claimId
    case "project.connected":
      return data.projectId
    case "task.started":
      return data.taskId
    case "pull_request.opened":
      return data.pullRequestId
    case "conversion.paid":
      return data.conversionId
  }
}
