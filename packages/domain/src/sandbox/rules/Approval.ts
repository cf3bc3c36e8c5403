/** Tool calls that wait for a person (docs/decisions/3). The first decision is final. */
import { isProtected } from "../../source/rules/FileRules.ts"
import type { Approval, Decision } from "../schema/Approval.ts"
import type { ApprovalOutcome, ApprovalRequest } from "../schema/SandboxEvent.ts"
import type { SandboxEventOf } from "./SandboxEvent.ts"
import type { ToolCall, ToolKind } from "./ToolCall.ts"

export type { Approval, ApprovalDecision, Decision } from "../schema/Approval.ts"

/**
 * The kind of calls that an approval for the rest of the turn covers: commands, network requests, and edits of plain files. `null`:
 * this call can only be approved by itself.
 */
export const coveredKind = ({ kind, plain }: Pick<ApprovalRequest, "kind" | "plain">): ToolKind | null =>
  kind === undefined || kind === "other" || kind === "mcp" || kind === "edit" && plain !== true ? null : kind

/**
 * Whether the path is below one of the `folders`, the repositories' trees. `path` is relative to the workspace. Only the name is
 * checked: the file may be a link. A name with `..` is refused, because `a/..` differs from `.` if `a` is a link.
 */
const isPlainName = (path: string, folders: ReadonlyArray<string>): boolean =>
  path.isWellFormed() && !path.includes("\0") && path.split("/").every((name) => name !== "" && name !== "." && name !== "..") &&
  folders.some((folder) => path.startsWith(`${folder}/`)) && !isProtected(path)

/**
 * Whether an edit changes only plain files of the trees: no protected name, no path outside the trees, no deletion. An edit without
 * this information is not plain.
 */
export const isPlainEdit = ({ kind, paths = [], removes }: ToolCall, folders: ReadonlyArray<string>): boolean =>
  kind === "edit" && removes === false && paths.length > 0 && paths.every((path) => isPlainName(path, folders))

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
