/**
 * How much of what an agent does is recorded: of each part, in each turn and in each sandbox. Decided with the events
 * themselves, so that no driver and no worker can go around it. Whoever goes beyond ends the turn as `failed`, reason
 * {@link OUTPUT_LIMIT}; what a part has too much is cut off, with a mark.
 */
import { cut, utf8Length } from "../../text/Utf8.ts"
import type { Sandbox } from "./Sandbox.ts"
import { type ApprovalRequest, type SandboxEvent, type SandboxEventOf, sizeOf } from "./SandboxEvent.ts"
import { type Detail, OUTPUT_BYTES, PREVIEW_BYTES } from "./ToolCall.ts"
import { cancelWaiting, closeTurn, endTurn } from "./Transition.ts"
import { isActive } from "./Turn.ts"

const MIB = 1024 * 1024

/**
 * Bytes of one text. Models end an answer at 128,000 tokens at most, which is about twice this: what is cut is no answer
 * that anybody reads to its end.
 */
export const PART_BYTES = 256 * 1024

/**
 * Events of one turn. A model that streams for all of the two hours a turn may take makes 28,800 (one every 250 ms), and a
 * tool call makes three.
 */
export const TURN_EVENTS = 50_000
/**
 * Bytes of one turn's events. As an event has all of its text so far, streams cost many times their text; the worker writes
 * long texts more seldom, at 16 KiB a second at most, which makes 113 MiB in two hours.
 */
export const TURN_BYTES = 128 * MIB

/** Events of one sandbox: five turns as large as they may be; a thousand as they are (measured: 20 to 250 events). */
export const SANDBOX_EVENTS = 250_000
/** Bytes of one sandbox's events. */
export const SANDBOX_BYTES = 512 * MIB

/** Approvals that wait at once. Each is a process of the agent's that waits; runtimes make a dozen calls at once at most. */
export const PENDING_APPROVALS = 100
/** Bytes of the approvals that wait: they are in the row, and in every snapshot. */
export const PENDING_BYTES = MIB

/** Bytes of an id, as the path of an approval takes them. Ours have less than 60. */
const ID_BYTES = 300
/** Bytes of what a tool call is shown as, and of a path. Our drivers cut at 200 characters. */
const NAME_BYTES = 1000
/** Bytes of why a tool call failed. */
const ERROR_BYTES = 8 * 1024
/** Paths of one approval. */
const PATHS = 100

/** `reason` of the turn's end, and `code` of the error that says which limit it was. */
export const OUTPUT_LIMIT = "output_limit"

/** At the end of a text that was cut. */
export const CUT_MARK = "\n[cut here: a text is recorded up to 256 KiB]"

/** A text as it may be recorded. Drivers ask early, so that they carry no more than this through memory. */
export const recordable = (text: string): string => cut(text, PART_BYTES, CUT_MARK)

const id = (value: string) => cut(value, ID_BYTES, "")
const name = (value: string) => cut(value, NAME_BYTES, "…")

type Work = SandboxEventOf<"message.updated" | "message.completed" | "tool.updated">

const boundDetail = ({ command, output, paths }: Detail): Detail => ({
  ...(command === undefined ? {} : { command: cut(command, PREVIEW_BYTES, "…") }),
  ...(paths === undefined ? {} : { paths: paths.slice(0, PATHS).map(name) }),
  ...(output === undefined ? {} : { output: cut(output, OUTPUT_BYTES, "…") })
})

/** The event with each of its texts cut to what may be recorded. */
export const boundWork = (event: Work): Work => {
  switch (event.type) {
    case "message.updated":
      return {
        ...event,
        data: { ...event.data, part_id: id(event.data.part_id), message_id: id(event.data.message_id), text: recordable(event.data.text) }
      }
    case "message.completed":
      return { ...event, data: { ...event.data, message_id: id(event.data.message_id) } }
    case "tool.updated": {
      const { call_id, detail, error, message_id, part_id, tool } = event.data
      return {
        ...event,
        data: {
          ...event.data,
          part_id: id(part_id),
          message_id: id(message_id),
          call_id: id(call_id),
          tool: name(tool),
          ...(error === undefined ? {} : { error: cut(error, ERROR_BYTES, "…") }),
          ...(detail === undefined ? {} : { detail: boundDetail(detail) })
        }
      }
    }
  }
}

/** The request with each of its texts cut to what may be recorded. */
export const boundApproval = <A extends Omit<ApprovalRequest, "expires_at">>(approval: A): A => ({
  ...approval,
  approval_id: id(approval.approval_id),
  tool: name(approval.tool),
  ...(approval.paths === undefined ? {} : { paths: approval.paths.slice(0, PATHS).map(name) })
})

const ofTurn = `${TURN_EVENTS} events or ${TURN_BYTES / MIB} MiB`
const ofSandbox = `${SANDBOX_EVENTS} events or ${SANDBOX_BYTES / MIB} MiB`

const sentences = {
  turn: `The agent wrote more than ${ofTurn} in one turn, so the turn was ended.`,
  sandbox: `This sandbox has recorded ${ofSandbox}, as many as one may. Create another one to go on.`,
  approvals: "The agent asked for too much at once, so the turn was ended.",
  message: "The agent sent a message that is larger than any may be, so the turn was ended."
}

/** The end of the turn, and why. */
const ended = (sandbox: Sandbox, limit: keyof typeof sentences): ReadonlyArray<SandboxEvent> => [
  {
    type: "sandbox.error",
    ...(sandbox.turn === null ? {} : { turn_id: sandbox.turn.id }),
    data: { code: OUTPUT_LIMIT, message: sentences[limit], retryable: limit !== "sandbox" }
  },
  ...(limit === "sandbox"
    // Nothing could be recorded of a next one.
    ? [...closeTurn(sandbox, "failed", { reason: OUTPUT_LIMIT, initiator: "policy" }), ...cancelWaiting(sandbox, OUTPUT_LIMIT)]
    : endTurn(sandbox, "failed", { reason: OUTPUT_LIMIT, initiator: "policy" }))
]

/** Which limit has been gone beyond when the log has come to `seq` events and `bytes`; `null`: none. */
const exceeded = ({ turn }: Sandbox, seq: number, bytes: number): "turn" | "sandbox" | null => {
  if (seq > SANDBOX_EVENTS || bytes > SANDBOX_BYTES) return "sandbox"
  const began = turn?.began
  return began !== undefined && (seq - began.seq > TURN_EVENTS || bytes - began.bytes > TURN_BYTES) ? "turn" : null
}

/** How many of the events may still be recorded, and what keeps the next one from it. */
const room = (sandbox: Sandbox, events: ReadonlyArray<SandboxEvent>) => {
  let { lastSeq: seq, logBytes: bytes } = sandbox
  for (const [fits, event] of events.entries()) {
    seq += 1
    bytes += sizeOf(event)
    const limit = exceeded(sandbox, seq, bytes)
    if (limit !== null) return { fits, limit }
  }
  return { fits: events.length, limit: null }
}

/** Those of the active turn's events that may still be recorded. If not all of them may be, the turn's end follows. */
export const admit = (sandbox: Sandbox, events: ReadonlyArray<SandboxEvent>): ReadonlyArray<SandboxEvent> => {
  const { fits, limit } = room(sandbox, events)
  return limit === null ? events : [...events.slice(0, fits), ...ended(sandbox, limit)]
}

/** An approval's request with the `more` that it makes; the turn's end when not all of it may be recorded. */
export const admitApproval = (
  sandbox: Sandbox,
  requested: SandboxEventOf<"approval.requested">,
  more: ReadonlyArray<SandboxEvent>
): ReadonlyArray<SandboxEvent> => {
  const { approvals } = sandbox
  // What a person is to judge is whole or not asked about: nothing is cut off here.
  const isTooMuch = approvals.length >= PENDING_APPROVALS ||
    utf8Length(Object.values(requested.data.preview ?? {}).join("")) > PREVIEW_BYTES ||
    utf8Length(JSON.stringify(approvals)) + sizeOf(requested) > PENDING_BYTES
  const events = [requested, ...more]
  const limit = isTooMuch ? "approvals" : room(sandbox, events).limit
  return limit === null ? events : ended(sandbox, limit)
}

/** The end of the active turn after a message of the agent's that its driver does not read; nothing when none is active. */
export const endForMessage = (sandbox: Sandbox): ReadonlyArray<SandboxEvent> => isActive(sandbox.turn) ? ended(sandbox, "message") : []

/** The end of a turn that begins in a sandbox that may record nothing more; nothing otherwise. */
export const endIfFull = (sandbox: Sandbox): ReadonlyArray<SandboxEvent> =>
  exceeded(sandbox, sandbox.lastSeq + 1, sandbox.logBytes + 1) === "sandbox" ? ended(sandbox, "sandbox") : []
