/**
 * Limits of recorded agent output: of each part, each turn and each sandbox. They are applied when events are decided, so drivers and
 * workers cannot bypass them. A turn above a limit ends as `failed` with reason {@link OUTPUT_LIMIT}. A part above its limit is cut,
 * with a mark.
 */
import { cut, utf8Length } from "../../text/Utf8.ts"
import { PENDING_QUESTIONS, type QuestionRequest, questionsOf, refusalOf } from "./Question.ts"
import type { Sandbox } from "./Sandbox.ts"
import { type ApprovalRequest, type SandboxEvent, type SandboxEventOf, sizeOf } from "./SandboxEvent.ts"
import { type Detail, OUTPUT_BYTES, PLAN_ENTRIES, PREVIEW_BYTES } from "./ToolCall.ts"
import { cancelWaiting, closeTurn, endTurn } from "./Transition.ts"
import { isActive } from "./Turn.ts"

const MIB = 1024 * 1024

/**
 * Bytes of one text. Models end an answer at 128,000 tokens at most, which is about twice this. A person would not read a longer answer
 * to its end.
 */
export const PART_BYTES = 256 * 1024

/** Events of one turn. A model that streams for the longest turn, two hours, makes 28,800 (one every 250 ms). A tool call makes three. */
export const TURN_EVENTS = 50_000
/**
 * Bytes of one turn's events. Each event has the whole text so far, so streams cost many times their text. The worker writes long texts
 * less often, at most 16 KiB a second, which makes 113 MiB in two hours.
 */
export const TURN_BYTES = 128 * MIB

/** Events of one sandbox: five turns of the largest size, or a thousand ordinary ones (measured: 20 to 250 events). */
export const SANDBOX_EVENTS = 250_000
/** Bytes of one sandbox's events. */
export const SANDBOX_BYTES = 512 * MIB

/** Pending approvals. Each is a waiting process of the agent; runtimes make at most a dozen calls at once. */
export const PENDING_APPROVALS = 100
/** Bytes of the pending approvals: they are in the row and in every snapshot. */
export const PENDING_BYTES = MIB

/** Bytes of an id in the path of an approval. Our ids are shorter than 60. */
const ID_BYTES = 300
/** Bytes of a tool call's title, and of a path. Our drivers cut them at 200 characters. */
const NAME_BYTES = 1000
/** Bytes of a step of a plan: its characters, each in up to four bytes. */
const PLAN_BYTES = 2000
/** Bytes of a failed tool call's error. */
const ERROR_BYTES = 8 * 1024
/** Paths of one approval. */
const PATHS = 100

/** `reason` of the turn's end, and `code` of the error that names the limit. */
export const OUTPUT_LIMIT = "output_limit"

/** The end of a text that was cut. */
export const CUT_MARK = "\n[cut here: a text is recorded up to 256 KiB]"

/** Cuts a text to its limit. Drivers call it early, so that memory never holds more. */
export const recordable = (text: string): string => cut(text, PART_BYTES, CUT_MARK)

const id = (value: string) => cut(value, ID_BYTES, "")
const name = (value: string) => cut(value, NAME_BYTES, "…")
const planText = (value: string) => cut(value, PLAN_BYTES, "…")

type Work = SandboxEventOf<"message.updated" | "message.completed" | "plan.updated" | "tool.updated">

const boundDetail = ({ command, output, paths }: Detail): Detail => ({
  ...(command === undefined ? {} : { command: cut(command, PREVIEW_BYTES, "…") }),
  ...(paths === undefined ? {} : { paths: paths.slice(0, PATHS).map(name) }),
  ...(output === undefined ? {} : { output: cut(output, OUTPUT_BYTES, "…") })
})

/** The event with each of its texts cut to its limit. */
export const boundWork = (event: Work): Work => {
  switch (event.type) {
    case "message.updated":
      return {
        ...event,
        data: { ...event.data, part_id: id(event.data.part_id), message_id: id(event.data.message_id), text: recordable(event.data.text) }
      }
    case "message.completed":
      return { ...event, data: { ...event.data, message_id: id(event.data.message_id) } }
    case "plan.updated": {
      const { entries, part_id } = event.data
      return {
        ...event,
        data: {
          part_id: id(part_id),
          entries: entries.slice(0, PLAN_ENTRIES).map(({ status, text }) => ({ text: planText(text), status }))
        }
      }
    }
    case "tool.updated": {
      const { call_id, detail, error, message_id, parent_call_id, part_id, tool } = event.data
      return {
        ...event,
        data: {
          ...event.data,
          part_id: id(part_id),
          message_id: id(message_id),
          call_id: id(call_id),
          ...(parent_call_id === undefined ? {} : { parent_call_id: id(parent_call_id) }),
          tool: name(tool),
          ...(error === undefined ? {} : { error: cut(error, ERROR_BYTES, "…") }),
          ...(detail === undefined ? {} : { detail: boundDetail(detail) })
        }
      }
    }
  }
}

/** The request with each of its texts cut to its limit. */
export const boundApproval = <A extends Omit<ApprovalRequest, "expires_at">>(approval: A): A => ({
  ...approval,
  approval_id: id(approval.approval_id),
  tool: name(approval.tool),
  ...(approval.paths === undefined ? {} : { paths: approval.paths.slice(0, PATHS).map(name) })
})

/** The request with its id cut to its limit. Its texts are never cut: see `refusalOf`. */
export const boundQuestion = <Q extends Omit<QuestionRequest, "expires_at">>(request: Q): Q => ({
  ...request,
  question_id: id(request.question_id)
})

const ofTurn = `${TURN_EVENTS} events or ${TURN_BYTES / MIB} MiB`
const ofSandbox = `${SANDBOX_EVENTS} events or ${SANDBOX_BYTES / MIB} MiB`

const sentences = {
  turn: `The agent wrote more than ${ofTurn} in one turn, so the turn was ended.`,
  sandbox: `This sandbox has recorded ${ofSandbox}, the most that one may. Create another one to go on.`,
  approvals: "The agent asked for too much at once, so the turn was ended.",
  message: "The agent sent a message that is too large, so the turn was ended."
}

/** The events that end the turn, with the limit as the reason. */
const ended = (sandbox: Sandbox, limit: keyof typeof sentences): ReadonlyArray<SandboxEvent> => [
  {
    type: "sandbox.error",
    ...(sandbox.turn === null ? {} : { turn_id: sandbox.turn.id }),
    data: { code: OUTPUT_LIMIT, message: sentences[limit], retryable: limit !== "sandbox" }
  },
  ...(limit === "sandbox"
    // The limit leaves no room for the events of another turn.
    ? [...closeTurn(sandbox, "failed", { reason: OUTPUT_LIMIT, initiator: "policy" }), ...cancelWaiting(sandbox, OUTPUT_LIMIT)]
    : endTurn(sandbox, "failed", { reason: OUTPUT_LIMIT, initiator: "policy" }))
]

/** The limit that a log of `seq` events and `bytes` exceeds; `null`: none. */
const exceeded = ({ turn }: Sandbox, seq: number, bytes: number): "turn" | "sandbox" | null => {
  if (seq > SANDBOX_EVENTS || bytes > SANDBOX_BYTES) return "sandbox"
  const began = turn?.began
  return began !== undefined && (seq - began.seq > TURN_EVENTS || bytes - began.bytes > TURN_BYTES) ? "turn" : null
}

/** The index of the first event that does not fit, and its limit. `undefined`: all fit. */
const firstAbove = (sandbox: Sandbox, events: ReadonlyArray<SandboxEvent>) => {
  let { lastSeq: seq, logBytes: bytes } = sandbox
  for (const [at, event] of events.entries()) {
    seq += 1
    bytes += sizeOf(event)
    const limit = exceeded(sandbox, seq, bytes)
    if (limit !== null) return { at, limit }
  }
  return undefined
}

/** The events of the active turn that fit. If some do not fit, the turn's end follows. */
export const admit = (sandbox: Sandbox, events: ReadonlyArray<SandboxEvent>): ReadonlyArray<SandboxEvent> => {
  const above = firstAbove(sandbox, events)
  return above === undefined ? events : [...events.slice(0, above.at), ...ended(sandbox, above.limit)]
}

/** An approval's request with the events that belong to it, or the turn's end if they do not all fit. */
export const admitApproval = (
  sandbox: Sandbox,
  requested: SandboxEventOf<"approval.requested">,
  more: ReadonlyArray<SandboxEvent>
): ReadonlyArray<SandboxEvent> => {
  const { approvals } = sandbox
  // A person must see the whole request, so it is refused instead of cut.
  const isTooMuch = approvals.length >= PENDING_APPROVALS ||
    utf8Length(Object.values(requested.data.preview ?? {}).join("")) > PREVIEW_BYTES ||
    utf8Length(JSON.stringify(approvals)) + sizeOf(requested) > PENDING_BYTES
  const events = [requested, ...more]
  const limit = isTooMuch ? "approvals" : firstAbove(sandbox, events)?.limit
  return limit === undefined ? events : ended(sandbox, limit)
}

/** A request for answers with the events that belong to it, or the turn's end if they do not all fit. */
export const admitQuestion = (
  sandbox: Sandbox,
  asked: SandboxEventOf<"question.asked">,
  more: ReadonlyArray<SandboxEvent>
): ReadonlyArray<SandboxEvent> => {
  // Drivers refuse such a request and tell their agent why.
  const isTooMuch = questionsOf(sandbox).length >= PENDING_QUESTIONS || refusalOf(asked.data.questions) !== null
  const events = [asked, ...more]
  const limit = isTooMuch ? "approvals" : firstAbove(sandbox, events)?.limit
  return limit === undefined ? events : ended(sandbox, limit)
}

/** The end of the active turn after an agent message that is too large for its driver. Empty without an active turn. */
export const endForMessage = (sandbox: Sandbox): ReadonlyArray<SandboxEvent> => isActive(sandbox.turn) ? ended(sandbox, "message") : []

/** The end of a turn that begins in a full sandbox. Empty for any other sandbox. */
export const endIfFull = (sandbox: Sandbox): ReadonlyArray<SandboxEvent> =>
  exceeded(sandbox, sandbox.lastSeq + 1, sandbox.logBytes + 1) === "sandbox" ? ended(sandbox, "sandbox") : []
