/** Waiting messages, as they are stored. */
import * as Schema from "effect/Schema"
import { AttachedFile } from "./PromptFile.ts"

/** The treatment of a message while a turn is active: refuse it, make it the next turn, or give it to the agent at once. */
export const WhenBusy = Schema.Literals(["reject", "queue", "steer"])
export type WhenBusy = typeof WhenBusy.Type

/** A waiting message. */
export const WaitingMessage = Schema.Struct({
  /** Also the id of the message's turn, unless an agent takes it into another turn. */
  id: Schema.String,
  /** The user who sent it. */
  authorId: Schema.String,
  /** The agent of the active turn gets it at once, if it can take it in time. */
  steers: Schema.Boolean,
  /** Its files. Absent: none. */
  files: Schema.optionalKey(Schema.Array(AttachedFile))
})
export type WaitingMessage = typeof WaitingMessage.Type

/** The text of a waiting message. */
export const WaitingText = Schema.Struct({ id: Schema.String, text: Schema.String })
export type WaitingText = typeof WaitingText.Type
