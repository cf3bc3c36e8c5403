/**
 * Messages that wait while a turn is active (docs/decisions.md 18): for their own turn, or, where they steer, for the agent to take
 * them into the one that runs. Whoever waits first gets the next turn.
 */
import * as Schema from "effect/Schema"
import type { QueuedMessage, SandboxEventOf } from "./SandboxEvent.ts"

/** How many wait at most in one sandbox: a person can still tell what they asked for. */
export const MAX_WAITING = 10

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

/** What a sandbox knows of them. */
export interface Queue {
  readonly waiting: ReadonlyArray<WaitingMessage>
  readonly waitingTexts: ReadonlyArray<WaitingText>
}

/** Whether this message waits. */
export const isWaiting = ({ waiting }: Pick<Queue, "waiting">, messageId: string): boolean => waiting.some(({ id }) => id === messageId)

/** Its text; empty where it is not known, as in a list of sandboxes. */
export const textOf = ({ waitingTexts }: Pick<Queue, "waitingTexts">, messageId: string): string =>
  waitingTexts.find(({ id }) => id === messageId)?.text ?? ""

/** All that wait, as clients are told of them: each with its place as of now. */
export const queuedOf = (queue: Queue): ReadonlyArray<QueuedMessage> =>
  queue.waiting.map(({ authorId, id, steers }, i) => ({
    message_id: id,
    position: i + 1,
    text: textOf(queue, id),
    author: { id: authorId },
    steers
  }))

/** What the agent of the active turn is to be handed, with its text, in this order. */
export const steersOf = (queue: Queue): ReadonlyArray<WaitingMessage & WaitingText> =>
  queue.waiting.filter(({ steers }) => steers).map((message) => ({ ...message, text: textOf(queue, message.id) }))

/** Where a new one comes: what steers comes before what only waits for its turn. */
export const placeOf = ({ waiting }: Pick<Queue, "waiting">, steers: boolean): number =>
  steers ? waiting.filter((message) => message.steers).length : waiting.length

/** With a message that begins to wait. */
export const withQueued = (queue: Queue, { data }: SandboxEventOf<"message.queued">): Queue => {
  const { author, message_id: id, steers, text } = data
  return {
    waiting: queue.waiting.toSpliced(placeOf(queue, steers), 0, { id, authorId: author.id, steers }),
    waitingTexts: [...queue.waitingTexts, { id, text }]
  }
}

/** Without the message: it waits no longer. */
export const without = ({ waiting, waitingTexts }: Queue, messageId: string): Queue => ({
  waiting: waiting.filter(({ id }) => id !== messageId),
  waitingTexts: waitingTexts.filter(({ id }) => id !== messageId)
})
