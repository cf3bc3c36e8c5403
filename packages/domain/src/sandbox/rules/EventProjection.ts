/** What is written of a sandbox's events: entries of its log, and what follows from them: how approvals stand, and messages. */
import type * as DateTime from "effect/DateTime"
import { toWire } from "../schema/SandboxEvent.ts"
import { type Approval, approvalOf } from "./Approval.ts"
import { dateOf, evolve, type Sandbox } from "./Sandbox.ts"
import { partOf, type SandboxEvent } from "./SandboxEvent.ts"

/** One event of the public log. `wire` is its JSON as every reader gets it. */
export interface LogEntry {
  readonly seq: number
  readonly type: SandboxEvent["type"]
  readonly wire: string
}

/** One prompt, or one message of the agent in full. `seq` orders them: see {@link WholeMessage}. */
export interface Message {
  readonly seq: number
  readonly id: string
  readonly turnId: string
  readonly role: "user" | "assistant"
  readonly text: string
  readonly createdAt: DateTime.Utc
}

/** An entry of the log, and which part it is of; entries of one part replace each other. `null`: it stands for itself. */
export interface RecordedEntry extends LogEntry {
  readonly part: string | null
}

/** A message that became whole. `seq`: the event that told the newest text of it by then, or the prompt. */
export interface WholeMessage extends Omit<Message, "createdAt" | "text"> {
  /** `null`: none of these events has a text of it, so its newest text of before counts. Without one it says nothing and is not listed. */
  readonly text: string | null
}

/** What events come to, in one transaction. */
export interface EventProjection {
  /** When they are recorded. */
  readonly at: DateTime.Utc
  /** The sandbox with them. */
  readonly sandbox: Sandbox
  readonly entries: ReadonlyArray<RecordedEntry>
  /** Each approval that they are about once, as it stands after them. */
  readonly approvals: ReadonlyArray<Approval>
  /** Prompts, and messages of the agent that became whole, ascending: each once without a text and once with one at most. */
  readonly messages: ReadonlyArray<WholeMessage>
  /** The newest text of each message of the agent that they are about, whole or not. */
  readonly texts: ReadonlyMap<string, string>
}

/** The agent's message that is whole because of the event between the two; `null`: none. It may have been whole before. */
const wholeMessage = (before: Sandbox, event: SandboxEvent, after: Sandbox): Pick<WholeMessage, "id" | "seq"> | null => {
  const { speaking, spokeAt: seq = after.lastSeq } = before.turn ?? {}
  if (event.type === "message.completed" && event.data.message_id !== speaking) return { id: event.data.message_id, seq: after.lastSeq }
  return speaking === undefined || speaking === after.turn?.speaking ? null : { id: speaking, seq }
}

/**
 * What is to be written of events that happen to the sandbox at one time, in order. A caller reads its clock before it waits for the lock
 * of the row, and others record events meanwhile: these are dated `now` or, if that is later, as the newest event of `before`.
 */
export const projectionOf = (before: Sandbox, events: ReadonlyArray<SandboxEvent>, now: DateTime.Utc): EventProjection => {
  const at = dateOf(before, now)
  let sandbox = before
  const entries: Array<RecordedEntry> = []
  const approvals = new Map<string, Approval>()
  const messages: Array<WholeMessage> = []
  const texts = new Map<string, string>()
  // By id: an agent may write thousands of short messages at once.
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
    if (event.type === "message.updated" && event.data.kind === "text") texts.set(event.data.message_id, event.data.text)
    const whole = wholeMessage(previous, event, sandbox)
    if (whole !== null) {
      const text = texts.get(whole.id) ?? null
      const known = listed.get(whole.id)
      const message = known === undefined ? undefined : messages[known]
      // What it said before is not known here: if nothing, it is listed only now.
      if (known === undefined || message === undefined || message.text === null && text !== null) {
        listed.set(whole.id, messages.length)
        messages.push({ ...whole, turnId, role: "assistant", text })
      } else messages[known] = { ...message, text }
    }
    // After what it interrupts.
    if (event.type === "turn.started") {
      messages.push({ seq, id: event.data.prompt_id, turnId, role: "user", text: event.data.text })
    }
    if (event.type === "message.steered") {
      messages.push({ seq, id: event.data.message_id, turnId, role: "user", text: event.data.text })
    }
  }
  return { at, sandbox, entries, approvals: Array.from(approvals.values()), messages, texts }
}

/**
 * The messages of a sandbox with those that became whole. `textOf`: the newest text of a message before. A message of the agent
 * that went on after it was listed stays where it was, with all of its text.
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
    const at = message.role === "user" ? -1 : messages.findIndex(({ id, role }) => id === message.id && role === "assistant")
    const listed = messages[at]
    if (listed === undefined) messages.push({ ...message, text, createdAt })
    else messages[at] = { ...listed, text }
  }
  return messages
}
