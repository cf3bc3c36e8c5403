/** What a sandbox wants of people, in one word. */
import * as Schema from "effect/Schema"

/**
 * `asking`: a tool call waits for a person. `working`: it boots, its agent works, or something else is done for it. `ready`: there is
 * something to review. `failed`: it failed, or its last turn did. `resting`: it waits for a prompt. `over`: nothing comes of it any more.
 */
export const Standing = Schema.Literals(["asking", "failed", "ready", "queued", "working", "resting", "over"])
export type Standing = typeof Standing.Type
