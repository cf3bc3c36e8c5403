/** Whether a sandbox needs the attention of people, in one word. */
import * as Schema from "effect/Schema"

/**
 * `asking`: a tool call waits for a person. `working`: the sandbox boots, its agent works, or the service works for it. `ready`: there
 * are changes to review. `failed`: the sandbox or its last turn failed. `resting`: it waits for a prompt. `over`: it has ended.
 */
export const AttentionState = Schema.Literals(["asking", "failed", "ready", "queued", "working", "resting", "over"])
export type AttentionState = typeof AttentionState.Type
