/** The rows that stores write for a sandbox's events: log entries, approvals, questions and messages. */
import type * as DateTime from "effect/DateTime"
import { toWire } from "../schema/SandboxEvent.ts"
import { type Approval, approvalOf } from "./Approval.ts"
import { type QuestionState, questionStateOf } from "./Question.ts"
import { dateOf, evolve, type Sandbox } from "./Sandbox.ts"
import { partOf, type SandboxEvent } from "./SandboxEvent.ts"

/** One event of the public log. `wire` is its JSON for every reader. */
export interface LogEntry {
  readonly seq: number
  readonly type: SandboxEvent["type"]
  readonly wire: string
}

/** One prompt, or one complete message of the agent. `seq` orders them: see {@link WholeMessage}. */
export interface Message {
  readonly seq: number
  readonly id: string
  readonly turnId: string
  readonly role: "user" | "assistant"
  readonly text: string
  readonly createdAt: DateTime.Utc
}

/** An entry of the log, and the part that it belongs to. Entries of one part replace each other. `null`: the entry is never replaced. */
export interface RecordedEntry extends LogEntry {
  readonly part: string | null
}

/** A message that became complete. `seq`: the event with its newest text at that time, or the prompt. */
export interface WholeMessage extends Omit<Message, "createdAt" | "text"> {
  /**
   * `null`: these events have no text of it, so its earlier newest text counts. Without such a text the message is empty and not
   * listed.
   */
  readonly text: string | null
}

/** The result of events that are recorded in one transaction. */
export interface EventProjection {
  /** The time of recording. */
  readonly at: DateTime.Utc
  /** The sandbox after the events. */
  readonly sandbox: Sandbox
  readonly entries: ReadonlyArray<RecordedEntry>
  /** Each approval of these events once, in its final state. */
  readonly approvals: ReadonlyArray<Approval>
  /** Each request for answers of these events once, in its final state. */
  readonly questions: ReadonlyArray<QuestionState>
  /** Prompts and completed messages of the agent, ascending. A message appears at most twice: once without a text and once with one. */
  readonly messages: ReadonlyArray<WholeMessage>
  /** The newest text of each agent message in these events, complete or not. */
  readonly texts: ReadonlyMap<string, string>
}

/** The agent's message that the event completes; `null`: none. The message may have been complete before. */
const wholeMessage = (before: Sandbox, event: SandboxEvent, after: Sandbox): Pick<WholeMessage, "id" | "seq"> | null => {
  const { speaking, spokeAt: seq = after.lastSeq } = before.turn ?? {}
  if (event.type === "message.completed" && event.data.message_id !== speaking) return { id: event.data.message_id, seq: after.lastSeq }
  return speaking === undefined || speaking === after.turn?.speaking ? null : { id: speaking, seq }
}

/**
 * The rows for events that happen to the sandbox at one time, in order. Callers read their clock before they wait for the row's lock,
 * and other events may be recorded meanwhile. So the time is `now` or, if later, the time of the newest event of `before`.
 */
export const projectionOf = (before: Sandbox, events: ReadonlyArray<SandboxEvent>, now: DateTime.Utc): EventProjection => {
  const at = dateOf(before, now)
  let sandbox = before
  const entries: Array<RecordedEntry> = []
  const approvals = new Map<string, Approval>()
  const questions = new Map<string, QuestionState>()
  const messages: Array<WholeMessage> = []
  const texts = new Map<string, string>()
  // An index by id: an agent may write thousands of short messages at once.
  const listed = new Map<string, number>()
  for (const event of events) {
    const previous = sandbox
    sandbox = evolve(previous, event, at)
    const seq = sandbox.lastSeq
    const turnId = event.turn_id ?? ""
    entries.push({ seq, type: event.type, part: partOf(event), wire: toWire(sandbox.id, { seq, at, event }) })
    if (event.type === "approval.requested" || event.type === "approval.resolved") {
      approvals.set(event.data.approval_id, approvalOf(event))
    }
    if (event.type === "question.asked" || event.type === "question.answered") {
      questions.set(event.data.question_id, questionStateOf(event))
    }
    if (event.type === "message.updated" && event.data.kind === "text") texts.set(event.data.message_id, event.data.text)
    const whole = wholeMessage(previous, event, sandbox)
    if (whole !== null) {
      const text = texts.get(whole.id) ?? null
      const known = listed.get(whole.id)
      const message = known === undefined ? undefined : messages[known]
      // Its earlier text is not known here. Without one, the message is listed only now.
      if (known === undefined || message === undefined || message.text === null && text !== null) {
        listed.set(whole.id, messages.length)
        messages.push({ ...whole, turnId, role: "assistant", text })
      } else messages[known] = { ...message, text }
    }
    // The prompt comes after the message that it interrupts.
    if (event.type === "turn.started") {
      messages.push({ seq, id: event.data.prompt_id, turnId, role: "user", text: event.data.text })
    }
    if (event.type === "message.steered") {
      messages.push({ seq, id: event.data.message_id, turnId, role: "user", text: event.data.text })
    }
  }
  return { at, sandbox, entries, approvals: Array.from(approvals.values()), questions: Array.from(questions.values()), messages, texts }
}

/**
 * Adds the completed messages to a sandbox's messages. `textOf`: the earlier newest text of a message. An agent message that continued
 * after it was listed keeps its place and gets its full text.
 */
export const withMessages = (
  known: ReadonlyArray<Message>,
  whole: ReadonlyArray<WholeMessage>,
  textOf: (id: string) => string | undefined,
  createdAt: DateTime.Utc
): ReadonlyArray<Message> => {
  const messages = [...known]
  for (const message of whole) {
    const text = message.text ?? textOf(message.id)
    if (text === undefined) continue
    // An agent chooses the ids of its messages: one may have the id of a prompt.
    const at = messages.findIndex(({ id, role }) => id === message.id && role === message.role)
    const listed = messages[at]
    if (listed === undefined) messages.push({ ...message, text, createdAt })
    else messages[at] = { ...listed, text }
  }
  return messages
}
