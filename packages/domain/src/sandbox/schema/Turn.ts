/** A turn as it is stored, and its states. The rules are in `../rules/Turn.ts`. */
import * as Schema from "effect/Schema"
import { Counter } from "../../text/Text.ts"
import { Timestamp } from "../../time/Timestamp.ts"
import { AttachedFile } from "./PromptFile.ts"
import { ToolKind } from "./ToolCall.ts"

/** The state of a turn (docs/decisions/2.2). */
export const TurnState = Schema.Literals([
  "pending",
  "running",
  "awaiting_approval",
  "succeeded",
  "failed",
  "interrupted",
  "cancelled"
])
export type TurnState = typeof TurnState.Type

/** The end of a turn. `cancelled`: it ended before an agent took it. */
export const TurnOutcome = Schema.Literals(["succeeded", "failed", "interrupted", "cancelled"])
export type TurnOutcome = typeof TurnOutcome.Type

/** One prompt and its result. A sandbox has one turn at a time. */
export const Turn = Schema.Struct({
  /** Counts from 1 within the sandbox; `id` is derived from it. */
  n: Schema.Int,
  id: Schema.String,
  prompt: Schema.String,
  /** The files of the prompt. Absent: none. */
  files: Schema.optionalKey(Schema.Array(AttachedFile)),
  /** The user who sent the prompt. */
  authorId: Schema.String,
  state: TurnState,
  /** The time when an agent took the prompt. The turn's time limit starts here. */
  startedAt: Schema.NullOr(Timestamp),
  /** A command asked the agent to end the turn; the agent may still be working. */
  interruptRequested: Schema.Boolean,
  /** The id of the previous turn. Absent in the first turn and in rows of earlier versions. */
  after: Schema.optionalKey(Schema.String),
  /** The length of the log when the turn was requested. Later events count for the turn's limits. Absent in rows of earlier versions. */
  began: Schema.optionalKey(Schema.Struct({ seq: Counter, bytes: Counter })),
  /** The agent's message with a text that may still grow. */
  speaking: Schema.optionalKey(Schema.String),
  /** The event with its newest text. Absent in rows of earlier versions. */
  spokeAt: Schema.optionalKey(Counter),
  /** The kinds of tool calls that a person approved for the rest of the turn. Absent: none. */
  approvedKinds: Schema.optionalKey(Schema.Array(ToolKind))
})
export type Turn = typeof Turn.Type
