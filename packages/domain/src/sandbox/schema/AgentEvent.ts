/** Events of an agent in a turn, and how it ended the turn. */
import * as Schema from "effect/Schema"
import { Detail, Preview, ToolKind } from "./ToolCall.ts"

/** How the last message of a turn ended. */
export const Finish = Schema.Literals(["end_turn", "max_tokens", "refusal", "cancelled", "error"])
export type Finish = typeof Finish.Type

/**
 * What an agent does during a turn, in the order it happened. Native frames never get this far. Texts are whole, not
 * deltas: each `MessageUpdated` replaces the one before of the same part. A message is whole when the next one or the next
 * tool call begins, or the turn ends.
 */
export const AgentEvent = Schema.TaggedUnion({
  /**
   * `text` is all of the part so far. `messageId` is unique within the sandbox. A message has one text at most, and before
   * it one thought at most.
   */
  MessageUpdated: { messageId: Schema.String, kind: Schema.Literals(["text", "reasoning"]), text: Schema.String },
  /** Statuses of one call only move forward: pending, running, then completed or error. `tool` is for display. */
  ToolUpdated: {
    callId: Schema.String,
    tool: Schema.String,
    status: Schema.Literals(["pending", "running", "completed", "error"]),
    error: Schema.optionalKey(Schema.String),
    detail: Schema.optionalKey(Detail)
  },
  /**
   * The agent waits until `decide` names this id. Sent in `prompt` mode only, and only for calls of which a person can see
   * what they do: others are denied at once. Paths are relative to the workspace.
   */
  ApprovalRequested: {
    approvalId: Schema.String,
    tool: Schema.String,
    kind: Schema.optionalKey(ToolKind),
    paths: Schema.optionalKey(Schema.Array(Schema.String)),
    /** As `PlainEdit.isPlain` says of the names that the agent gives. */
    plain: Schema.optionalKey(Schema.Literal(true)),
    preview: Schema.optionalKey(Preview)
  },
  /** A text that `steer` handed over is part of the turn by now. Once for each, in the order they were handed over. */
  MessageSteered: { messageId: Schema.String },
  /** Totals of the turn so far as the agent counts them: for display while it runs, not for charging. */
  UsageReported: { llmRequestCount: Schema.Int, costMicroUsd: Schema.Int }
})
export type AgentEvent = typeof AgentEvent.Type

/** How the agent ended a turn. `interrupted` only after our own `interrupt`. `reason` is a sentence, free of secrets. */
export interface TurnEnd {
  readonly state: "succeeded" | "failed" | "interrupted"
  readonly reason?: string
  /** Absent: as `finishes` has it for the state. */
  readonly finish?: Finish
}
