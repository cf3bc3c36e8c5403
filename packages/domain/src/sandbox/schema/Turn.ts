/** A turn as it is stored, and the words of its states. Its rules are in `../Turn.ts`. */
import * as Schema from "effect/Schema"
import { Counter } from "../../text/Text.ts"
import { Timestamp } from "../../time/Timestamp.ts"
import { ToolKind } from "./ToolCall.ts"

/** Where a turn is (docs/decisions/2.2). */
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

/** How a turn can end. `cancelled`: it ended before an agent took it. */
export const TurnOutcome = Schema.Literals(["succeeded", "failed", "interrupted", "cancelled"])
export type TurnOutcome = typeof TurnOutcome.Type

/** One prompt and what became of it. A sandbox has one at a time. */
export const Turn = Schema.Struct({
  /** Counts from 1 within the sandbox; `id` is derived from it. */
  n: Schema.Int,
  id: Schema.String,
  prompt: Schema.String,
  /** User who sent the prompt. */
  authorId: Schema.String,
  state: TurnState,
  /** When an agent took the prompt; the turn's deadline counts from here. */
  startedAt: Schema.NullOr(Timestamp),
  /** A command asked for its end; the agent may still be working on it. */
  interruptRequested: Schema.Boolean,
  /** Id of the turn before it; absent in the first one, and in old rows. */
  after: Schema.optionalKey(Schema.String),
  /** Where the log stood when the turn was asked for: what came since is counted against its limits. Absent in old rows. */
  began: Schema.optionalKey(Schema.Struct({ seq: Counter, bytes: Counter })),
  /** The agent's message that has a text and is not known to be whole. */
  speaking: Schema.optionalKey(Schema.String),
  /** The event that told the newest text of it. Absent in old rows. */
  spokeAt: Schema.optionalKey(Counter),
  /** Kinds of tool calls that a person approved for the rest of it. Absent: none. */
  approvedKinds: Schema.optionalKey(Schema.Array(ToolKind))
})
export type Turn = typeof Turn.Type
