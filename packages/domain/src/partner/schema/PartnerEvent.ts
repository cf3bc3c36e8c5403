/** The events of a grant's feed (docs/interface.md 2.7, 6.2): six types, each with a fixed payload. */
import * as Schema from "effect/Schema"
import * as Tuple from "effect/Tuple"
import { Counter, text } from "../../text/Text.ts"
import { timestamp } from "../../time/Timestamp.ts"

/** A UUID, spelled as received. */
export const Uuid = Schema.String.check(Schema.isUUID())

/** Whole credits. */
export const CreditAmount = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }))

/** The offer of the claim. */
const lead = {
  claimId: Uuid.annotateKey({ description: "The claim that this counts for." }),
  leadId: text(1, 200).annotateKey({ description: "The partner's name for the customer." }),
  variant: text(1, 200).annotateKey({ description: "The partner's name for the offer." })
}

const claim = {
  ...lead,
  creditAmount: CreditAmount.annotateKey({ description: "Credits that the claim adds." }),
  createdAt: timestamp("When the claim was created.")
}
const attributed = { ...lead, occurredAt: timestamp("When it happened, possibly long before the record.") }

const projectId = Schema.String.annotateKey({ description: "The project, by its id in the operator's system." })
const projectOfTask = Schema.NullOr(Schema.String).annotateKey({
  description: "The project of the task's first repository, if any."
})
const taskId = Schema.String.annotateKey({ description: "The task: the id of its sandbox." })

const fact = <const T extends string, const F extends Schema.Struct.Fields>(type: T, data: F) =>
  Schema.Struct({
    type: Schema.Literal(type).annotateKey({ description: "What happened." }),
    data: Schema.Struct(data).annotateKey({ description: "What there is to know of it." })
  })

/** A fact before it has a position in a feed. */
export const PartnerFact = Schema.Union([
  fact("credit_claim.created", {
    ...claim,
    status: Schema.Literal("pending").annotateKey({ description: "It was not claimed yet." }),
    claimedAt: Schema.Null.annotateKey({ description: "It was not claimed yet." })
  }),
  fact("credit_claim.claimed", {
    ...claim,
    status: Schema.Literal("claimed").annotateKey({ description: "Its credits were added." }),
    claimedAt: timestamp("When its credits were added.")
  }),
  fact("project.connected", { ...attributed, projectId }),
  fact("task.started", { ...attributed, taskId, projectId: projectOfTask }),
  fact("pull_request.opened", {
    ...attributed,
    pullRequestId: Schema.String.annotateKey({ description: "Derived from the host, the repository and the number; never changes." }),
    taskId,
    projectId: projectOfTask
  }),
  fact("conversion.paid", {
    ...attributed,
    conversionId: Schema.String.annotateKey({ description: "Derived from the organization, which converts once." })
  })
])
export type PartnerFact = typeof PartnerFact.Type

/** A fact in the feed and in webhooks (docs/interface.md 2.7). */
export const PartnerEvent = PartnerFact.mapMembers(Tuple.map(Schema.fieldsAssign({
  id: Uuid.annotateKey({ description: "Given when it is recorded: the same in every delivery and every reading." }),
  sequence: Counter.check(Schema.isGreaterThanOrEqualTo(1)).annotateKey({ description: "From 1, without gaps, within the grant." }),
  createdAt: timestamp("When it was recorded.")
}))).annotate({ identifier: "PartnerEvent" })
export type PartnerEvent = typeof PartnerEvent.Type

/** The id of the fact's subject. A feed has each type once per subject. */
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
