import * as Schema from "effect/Schema"

/** The public names of the runtimes (docs/interface.md 2.1). The offline agent reports itself as `opencode`. */
export const AgentRuntimeName = Schema.Literals(["opencode", "codex", "claude", "grok"])
export type AgentRuntimeName = typeof AgentRuntimeName.Type
