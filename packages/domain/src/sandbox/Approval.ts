/** Tool calls that wait for a person (docs/decisions.md 3). The first decision wins and stays. */
import { Schema } from "effect"
import { text } from "../Text.ts"
import { ApprovalOutcome, ApprovalResolver } from "./SandboxEvent.ts"

/** As the agent named the tool call; 1 to 300 characters. */
export const ApprovalId = text(1, 300)

/** A person's answer to an approval. */
export const Decision = Schema.Literals(["approve", "deny"])
export type Decision = typeof Decision.Type

/** What a decision makes of the approval. */
export const outcomeOf: Readonly<Record<Decision, ApprovalOutcome>> = { approve: "approved", deny: "denied" }

/** How an approval stands. Both are `null` while it is pending. */
export const Approval = Schema.Struct({
  approvalId: Schema.String,
  outcome: Schema.NullOr(ApprovalOutcome),
  by: Schema.NullOr(ApprovalResolver)
})
export type Approval = typeof Approval.Type
