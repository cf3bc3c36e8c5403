import * as Schema from "effect/Schema"

/** Reasoning efforts of the interface, weakest first. A model accepts the ones its catalogue entry lists. */
export const ReasoningEffort = Schema.Literals(["none", "low", "medium", "high", "xhigh", "max", "ultra", "ultracode"])
export type ReasoningEffort = typeof ReasoningEffort.Type
