/** The state of a sandbox for people, as a code. */
import * as Schema from "effect/Schema"

/**
 * `starting`: the sandbox waits for a worker or boots. `working`: its agent works, or the service works for it. `asking`: a tool call waits
 * for a person. `ready`: there are changes to review. `failed`: the sandbox or its last turn failed. `idle`: it waits for a prompt.
 * `ended`: it has ended.
 */
export const AttentionState = Schema.Literals(["starting", "working", "asking", "ready", "failed", "idle", "ended"])
export type AttentionState = typeof AttentionState.Type
