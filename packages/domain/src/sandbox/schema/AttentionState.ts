/** Whether a sandbox needs the attention of people, in one word. */
import * as Schema from "effect/Schema"

/**
 * `asking`: a tool call waits for a person. `working`: it boots, its agent works, or the service does something for it. `ready`: there
 * is something to review. `failed`: it failed, or its last turn did. `resting`: it waits for a prompt. `over`: it has ended.
 */
export const AttentionState = Schema.Literals(["asking", "failed", "ready", "queued", "working", "resting", "over"])
export type AttentionState = typeof AttentionState.Type
