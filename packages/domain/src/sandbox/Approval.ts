/** Tool calls that wait for a person (docs/decisions.md 3). The first decision wins and stays. */
import type { SandboxEventOf } from "./SandboxEvent.ts"
import type { Approval, Decision } from "./schema/Approval.ts"
import type { ApprovalOutcome } from "./schema/SandboxEvent.ts"
import type { ToolKind } from "./ToolCall.ts"

export type { Approval, ApprovalDecision, Decision } from "./schema/Approval.ts"

/** Whether calls of this kind can be approved for the rest of a turn: whoever does that knows what to expect of them. */
export const isKind = (kind: ToolKind | undefined): kind is ToolKind => kind !== undefined && kind !== "other"

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
