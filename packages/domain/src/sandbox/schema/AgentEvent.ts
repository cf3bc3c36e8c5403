/** Events of an agent in a turn, and the result of the turn. */
import * as Schema from "effect/Schema"
import { PlanEntry } from "./Plan.ts"
import { Question } from "./Question.ts"
import { Detail, Preview, ToolKind } from "./ToolCall.ts"

/** How the last message of a turn ended. */
export const Finish = Schema.Literals(["end_turn", "max_tokens", "refusal", "cancelled", "error"])
export type Finish = typeof Finish.Type

/**
 * The agent's actions during a turn, in order. Drivers translate native messages to these. Texts are complete, not deltas: each
 * `MessageUpdated` replaces the previous one of the same part. A message is final when the next message or tool call begins, or the
 * turn ends.
 */
export const AgentEvent = Schema.TaggedUnion({
  /**
   * `text` is the whole part so far. `messageId` is unique within the sandbox. A message has at most one text, and before it at most
   * one thought.
   */
  MessageUpdated: { messageId: Schema.String, kind: Schema.Literals(["text", "reasoning"]), text: Schema.String },
  /**
   * Statuses of one call only move forward: pending, running, then completed or error. `tool` is for display. `parentCallId`: the earlier
   * call of the turn that started the sub-agent whose call it is; absent: the agent's own, or unknown.
   */
  ToolUpdated: {
    callId: Schema.String,
    parentCallId: Schema.optionalKey(Schema.String),
    tool: Schema.String,
    status: Schema.Literals(["pending", "running", "completed", "error"]),
    error: Schema.optionalKey(Schema.String),
    /** Only for tools of MCP servers. */
    kind: Schema.optionalKey(Schema.Literal("mcp")),
    detail: Schema.optionalKey(Detail)
  },
  /**
   * The agent waits until `decide` gets this id. Sent in `prompt` mode only, and only for calls whose effect can be shown to a person;
   * others are denied at once. Paths are relative to the workspace.
   */
  ApprovalRequested: {
    approvalId: Schema.String,
    tool: Schema.String,
    kind: Schema.optionalKey(ToolKind),
    paths: Schema.optionalKey(Schema.Array(Schema.String)),
    /** The result of `isPlainEdit` for the names that the agent gives. */
    plain: Schema.optionalKey(Schema.Literal(true)),
    preview: Schema.optionalKey(Preview)
  },
  /** The agent waits until `answer` gets this id. Sent in every mode. What `Question.refusalOf` refuses is never asked. */
  QuestionAsked: { questionId: Schema.String, questions: Schema.Array(Question) },
  /** The agent's plan or list of tasks. It replaces the one before. */
  PlanUpdated: { entries: Schema.Array(PlanEntry) },
  /** The agent has taken a text of `steer` into the turn. Sent once for each text, in the order of `steer`. */
  MessageSteered: { messageId: Schema.String },
  /** Totals of the turn as the agent counts them: for display while it runs, not for charges. */
  UsageReported: { llmRequestCount: Schema.Int, costMicroUsd: Schema.Int }
})
export type AgentEvent = typeof AgentEvent.Type

/** How the agent ended a turn. `interrupted` only after our own `interrupt`. `reason` is a sentence without secrets. */
export interface TurnEnd {
  readonly state: "succeeded" | "failed" | "interrupted"
  readonly reason?: string
  /** Absent: the default of `finishes` for the state. */
  readonly finish?: Finish
}
