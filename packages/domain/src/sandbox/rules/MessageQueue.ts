/**
 * Messages that wait while a turn is active (docs/decisions/18): for their own turn or, if they steer, for the agent to take them into
 * the running one. The longest waiting message gets the next turn.
 */
import type { WaitingMessage, WaitingText } from "../schema/MessageQueue.ts"
import type { QueuedMessage, SandboxEventOf } from "./SandboxEvent.ts"

export type { WaitingMessage, WaitingText, WhenBusy } from "../schema/MessageQueue.ts"

/** Waiting messages of one sandbox: few enough for a person to remember. */
export const MAX_WAITING = 10

/** The waiting messages of a sandbox. */
export interface Queue {
  readonly waiting: ReadonlyArray<WaitingMessage>
  readonly waitingTexts: ReadonlyArray<WaitingText>
}

/** Whether the message waits. */
export const isWaiting = ({ waiting }: Pick<Queue, "waiting">, messageId: string): boolean => waiting.some(({ id }) => id === messageId)

/** The text of a message; empty if unknown, as in a list of sandboxes. */
export const textOf = ({ waitingTexts }: Pick<Queue, "waitingTexts">, messageId: string): string =>
  waitingTexts.find(({ id }) => id === messageId)?.text ?? ""

/** All waiting messages for clients, each with its present place. */
export const queuedOf = (queue: Queue): ReadonlyArray<QueuedMessage> =>
  queue.waiting.map(({ authorId, files, id, steers }, i) => ({
    message_id: id,
    position: i + 1,
    text: textOf(queue, id),
    author: { id: authorId },
    steers,
    ...(files === undefined ? {} : { files })
  }))

/** The messages with their texts for the agent of the active turn, in this order. */
export const steersOf = (queue: Queue): ReadonlyArray<WaitingMessage & WaitingText> =>
  queue.waiting.filter(({ steers }) => steers).map((message) => ({ ...message, text: textOf(queue, message.id) }))

/** The place of a new message: steering messages come before the others. */
export const placeOf = ({ waiting }: Pick<Queue, "waiting">, steers: boolean): number =>
  steers ? waiting.filter((message) => message.steers).length : waiting.length

/** The queue with the new message. */
export const withQueued = (queue: Queue, { data }: SandboxEventOf<"message.queued">): Queue => {
  const { author, files, message_id: id, steers, text } = data
  const message = { id, authorId: author.id, steers, ...(files === undefined ? {} : { files }) }
  return {
    waiting: queue.waiting.toSpliced(placeOf(queue, steers), 0, message),
    waitingTexts: [...queue.waitingTexts, { id, text }]
  }
}

/** The queue without the message. */
export const without = ({ waiting, waitingTexts }: Queue, messageId: string): Queue => ({
  waiting: waiting.filter(({ id }) => id !== messageId),
  waitingTexts: waitingTexts.filter(({ id }) => id !== messageId)
})
