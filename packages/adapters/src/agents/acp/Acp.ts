/**
 * The part of the Agent Client Protocol, version 1, that Slipway reads. Looser than the protocol wherever a stricter
 * reading would break on an agent that adds something. Field names and values are the protocol's.
 */
import { Schema } from "effect"
import type { AgentEvent, ToolKind } from "@slipway/domain/sandbox/AgentRuntime"
import type { ToolStatus } from "../TurnEvents.ts"

const nullish = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

/** `category: "thought_level"` is how hard the model thinks. */
export const ConfigOption = Schema.Struct({ id: Schema.String, category: nullish(Schema.String) })

export const SessionOpened = Schema.Struct({
  /** Absent in the answer to `session/resume`. */
  sessionId: Schema.optionalKey(Schema.String),
  configOptions: nullish(Schema.Array(ConfigOption))
})

export const PromptEnded = Schema.Struct({ stopReason: Schema.String })

const ToolFields = {
  toolCallId: Schema.String,
  title: nullish(Schema.String),
  kind: nullish(Schema.String),
  status: nullish(Schema.String),
  locations: nullish(Schema.Array(Schema.Struct({ path: Schema.String })))
}
export const ToolCall = Schema.Struct(ToolFields)
export type ToolCall = typeof ToolCall.Type

const Chunk = Schema.Struct({
  sessionUpdate: Schema.Literals(["agent_message_chunk", "agent_thought_chunk"]),
  messageId: nullish(Schema.String),
  content: Schema.Struct({ type: Schema.String, text: Schema.optionalKey(Schema.String) })
})
const ToolUpdate = Schema.Struct({ sessionUpdate: Schema.Literals(["tool_call", "tool_call_update"]), ...ToolFields })

/** `session/update`, as far as it concerns a turn. Other updates do not decode. */
export const SessionUpdate = Schema.Struct({ sessionId: Schema.String, update: Schema.Union([Chunk, ToolUpdate]) })

/** An update in an agent's own words. */
export const ExtensionUpdate = Schema.Struct({
  sessionId: Schema.String,
  update: Schema.Struct({ sessionUpdate: Schema.String })
})

export const PermissionRequest = Schema.Struct({
  sessionId: Schema.String,
  toolCall: ToolCall,
  options: Schema.Array(Schema.Struct({ optionId: Schema.String, kind: Schema.String }))
})

export const toolKinds: Readonly<Record<string, ToolKind>> = {
  edit: "edit",
  delete: "edit",
  move: "edit",
  execute: "command",
  fetch: "network"
}

const verbs: Readonly<Record<string, string>> = { edit: "Edit", delete: "Delete", move: "Move", read: "Read" }

/** What a person reads. Some agents say the tool's name or the bare path where others make a phrase of both. */
export const titleOf = (title: string, kind: string | null | undefined, path: string | undefined): string => {
  const verb = verbs[kind ?? ""]
  return verb !== undefined && path !== undefined && (title === path || /^[\w-]+$/u.test(title)) ? `${verb} ${path}` : title
}

export const toolStatuses: Readonly<Record<string, ToolStatus>> = {
  pending: "pending",
  in_progress: "running",
  completed: "completed",
  failed: "error"
}

type Finish = Extract<AgentEvent, { readonly _tag: "MessageCompleted" }>["finish"]

/** How the last message ended, by stop reason. */
export const finishes: Readonly<Record<string, Finish>> = {
  end_turn: "end_turn",
  max_tokens: "max_tokens",
  refusal: "refusal",
  cancelled: "cancelled"
}

/** Why a turn failed that ended with this stop reason. */
export const failures: Readonly<Record<string, string>> = {
  max_tokens: "The model reached its output limit.",
  max_turn_requests: "The agent reached its limit of model requests in one turn.",
  refusal: "The model refused to go on.",
  cancelled: "The agent cancelled the turn by itself."
}
