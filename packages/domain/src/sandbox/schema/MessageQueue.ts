/** Messages that wait, as they are stored. */
import * as Schema from "effect/Schema"

/** What becomes of a message while a turn is active: refused, the next turn, or handed to the agent at once. */
export const WhenBusy = Schema.Literals(["reject", "queue", "steer"])
export type WhenBusy = typeof WhenBusy.Type

/** A message that waits. */
export const WaitingMessage = Schema.Struct({
  /** Also of the turn that it gets, unless an agent takes it into another one. */
  id: Schema.String,
  /** User who sent it. */
  authorId: Schema.String,
  /** The agent of the active turn is to have it at once, if it can take it in time. */
  steers: Schema.Boolean
})
export type WaitingMessage = typeof WaitingMessage.Type

/** The text of a message that waits. */
export const WaitingText = Schema.Struct({ id: Schema.String, text: Schema.String })
export type WaitingText = typeof WaitingText.Type
