import * as Schema from "effect/Schema"

/** `prompt`: the agent asks before it edits or runs anything. `auto`: it never asks. */
export const ToolApprovalMode = Schema.Literals(["auto", "prompt"])
export type ToolApprovalMode = typeof ToolApprovalMode.Type
