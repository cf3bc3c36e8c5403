/** A turn as it is stored, and its states. The rules are in `../rules/Turn.ts`. */
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { Counter } from "../../text/Text.ts"
import { Timestamp } from "../../time/Timestamp.ts"
import { QuestionRequest } from "./Question.ts"
import { ToolKind } from "./ToolCall.ts"

/** The state of a turn (docs/decisions/2.2). */
export const TurnState = Schema.Literals([
  "pending",
  "running",
  "awaiting_approval",
  "awaiting_answer",
  "succeeded",
  "failed",
  "interrupted",
  "cancelled"
])
export type TurnState = typeof TurnState.Type

/** The end of a turn. `cancelled`: it ended before an agent took it. */
export const TurnOutcome = Schema.Literals(["succeeded", "failed", "interrupted", "cancelled"])
export type TurnOutcome = typeof TurnOutcome.Type

const Fields = Schema.Struct({
  /** Counts from 1 within the sandbox; `id` is derived from it. */
  n: Schema.Int,
  id: Schema.String,
  prompt: Schema.String,
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
  approvedKinds: Schema.optionalKey(Schema.Array(ToolKind)),
  /** Pending requests for answers, oldest first. Absent: none. */
  questions: Schema.optionalKey(Schema.Array(QuestionRequest))
})

/** As it is stored: processes of earlier versions cannot read the state `awaiting_answer`. */
const Stored = Schema.Struct({ ...Fields.fields, awaits: Schema.optionalKey(Schema.Literal("awaiting_answer")) })

/** One prompt and its result. A sandbox has one turn at a time. */
export const Turn = Stored.pipe(
  Schema.decodeTo(
    Schema.toType(Fields),
    SchemaTransformation.transform({
      decode: ({ awaits, ...turn }) => awaits === undefined || turn.state !== "awaiting_approval" ? turn : { ...turn, state: awaits },
      encode: (turn): typeof Stored.Type =>
        turn.state === "awaiting_answer" ? { ...turn, state: "awaiting_approval", awaits: turn.state } : turn
    })
  )
)
export type Turn = typeof Turn.Type
