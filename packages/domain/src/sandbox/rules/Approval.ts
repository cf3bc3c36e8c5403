/** Tool calls that wait for a person (docs/decisions/3). The first decision is final. */
import type { Approval, Decision } from "../schema/Approval.ts"
import type { ApprovalOutcome, ApprovalRequest } from "../schema/SandboxEvent.ts"
import type { SandboxEventOf } from "./SandboxEvent.ts"
import type { ToolKind } from "./ToolCall.ts"

export type { Approval, ApprovalDecision, Decision } from "../schema/Approval.ts"

/**
 * The kind of calls that an approval for the rest of the turn covers: commands, network requests, and edits of plain files. `null`:
 * this call can only be approved by itself.
 */
export const coveredKind = ({ kind, plain }: Pick<ApprovalRequest, "kind" | "plain">): ToolKind | null =>
  kind === undefined || kind === "other" || kind === "mcp" || kind === "edit" && plain !== true ? null : kind

/** The message that gives the agent the reason of a denial. */
export const denialMessage = (tool: string, reason: string): string => `Denied: ${tool}\n\n${reason}`

/** The outcome of an approval, by decision. */
export const outcomeOf: Readonly<Record<Decision, ApprovalOutcome>> = { approve: "approved", deny: "denied" }

/** The state of the approval after the event. */
export const approvalOf = ({ data, type }: SandboxEventOf<"approval.requested" | "approval.resolved">): Approval => {
  if (type === "approval.requested") return { approvalId: data.approval_id, outcome: null, by: null }
  const { approval_id: approvalId, by, outcome, reason } = data
  return { approvalId, outcome, by, ...(reason === undefined ? {} : { reason }) }
}
