/** Decisions as they are sent, and approvals as they are stored. */
import * as Schema from "effect/Schema"
import { text } from "../../text/Text.ts"
import { ApprovalOutcome, ApprovalResolver, ApprovalScope } from "./SandboxEvent.ts"

/** The agent's id of the tool call; 1 to 300 characters. */
export const ApprovalId = text(1, 300)

/** A person's answer to an approval. */
export const Decision = Schema.Literals(["approve", "deny"])
export type Decision = typeof Decision.Type

/** A person's reason for a denial, for the agent: 1 to 2000 characters. */
export const DenialReason = text(1, 2000)

/** A decision with its options. */
export const ApprovalDecision = Schema.Struct({
  decision: Decision.annotateKey({ description: "The decision." }),
  scope: Schema.optionalKey(ApprovalScope).annotateKey({
    description: "With `approve`. `turn`: also waiting and later calls of the same `kind` in this turn. Default: this " +
      "tool call alone."
  }),
  reason: Schema.optionalKey(DenialReason).annotateKey({ description: "With `deny`: the reason for the agent." })
}).check(
  Schema.makeFilter(({ decision, reason, scope }) => decision === "approve" ? reason === undefined : scope === undefined, {
    expected: "a scope only with approve, and a reason only with deny",
    toJsonSchema: () => [{}, true]
  })
)
export type ApprovalDecision = typeof ApprovalDecision.Type

/** The state of an approval. Both fields are `null` while it is pending. */
export const Approval = Schema.Struct({
  approvalId: Schema.String,
  outcome: Schema.NullOr(ApprovalOutcome),
  by: Schema.NullOr(ApprovalResolver),
  /** The reason of a denial, if the person gave one. */
  reason: Schema.optionalKey(Schema.String)
})
export type Approval = typeof Approval.Type
