/**
 * Messages that wait while a turn is active (docs/decisions/18): for their own turn, or, where they steer, for the agent to take
 * them into the one that runs. Whoever waits first gets the next turn.
 */
import type { WaitingMessage, WaitingText } from "../schema/MessageQueue.ts"
import type { QueuedMessage, SandboxEventOf } from "./SandboxEvent.ts"

export type { WaitingMessage, WaitingText, WhenBusy } from "../schema/MessageQueue.ts"

/** How many wait at most in one sandbox: a person can still tell what they asked for. */
export const MAX_WAITING = 10

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
