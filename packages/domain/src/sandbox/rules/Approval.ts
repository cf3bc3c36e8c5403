/** Tool calls that wait for a person (docs/decisions/3). The first decision wins and stays. */
import type { Approval, Decision } from "../schema/Approval.ts"
import type { ApprovalOutcome, ApprovalRequest } from "../schema/SandboxEvent.ts"
import type { SandboxEventOf } from "./SandboxEvent.ts"
import type { ToolKind } from "./ToolCall.ts"

export type { Approval, ApprovalDecision, Decision } from "../schema/Approval.ts"

/**
 * Whether calls like this one can be approved for the rest of a turn: commands, network requests, and edits of plain files. `null`: this
 * one is approved alone.
 */
export const coveredKind = ({ kind, plain }: Pick<ApprovalRequest, "kind" | "plain">): ToolKind | null =>
  kind === undefined || kind === "other" || kind === "edit" && plain !== true ? null : kind

/** What the agent gets to read of a denial as a message. */
export const denialMessage = (tool: string, reason: string): string => `Denied: ${tool}\n\n${reason}`

/** What a decision makes of the approval. */
export const outcomeOf: Readonly<Record<Decision, ApprovalOutcome>> = { approve: "approved", deny: "denied" }

/** How the approval stands with the event. */
export const approvalOf = ({ data, type }: SandboxEventOf<"approval.requested" | "approval.resolved">): Approval => {
  if (type === "approval.requested") return { approvalId: data.approval_id, outcome: null, by: null }
  const { approval_id: approvalId, by, outcome, reason } = data
  return { approvalId, outcome, by, ...(reason === undefined ? {} : { reason }) }
}
