/**
 * The wire between a worker and a runner: what one message of their WebSocket is. Each is binary and begins with a byte that says its
 * kind. `docs/runner.md` describes it; a change of anything here is another `PROTOCOL`.
 */

/** Both sides say it in their first message; a runner refuses every other. */
export const PROTOCOL = 2

/** The header of a channel: for a process it has the arguments and the environment. A runner's headers are limited by `NOTE_BYTES`. */
export const HEADER_BYTES = 256 * 1024

/** A note beside the bytes of a channel. */
export const NOTE_BYTES = 16 * 1024

/** The bytes of a channel in one frame. */
export const CHUNK_BYTES = 64 * 1024

/** The longest message: a header, and what stands before it. A longer one ends the connection before it is read. */
export const MESSAGE_BYTES = HEADER_BYTES + 64

/** Hellos and their answers. */
const GREETING_BYTES = 1024

/** Said or done by the other side against this protocol. It ends the session: nothing that is said later can be relied on. */
export class Violation extends Error {
  override readonly name = "Violation"
}

/** The worker's first message on each connection. */
export interface Hello {
  readonly protocol: number
  /** 32 hexadecimal digits, drawn anew for each session. */
  readonly session: string
  /** The fence of the worker's lease. */
  readonly fence: number
  /** Grows with each connection of a session, so that a hello that was late on its way changes nothing. */
  readonly attempt: number
  /** Whether the worker was welcomed in this session before. */
  readonly resumes: boolean
  /** The number of the last frame that the worker has; 0: no frame. */
  readonly received: number
}

/** Why a runner takes no connection; `docs/runner.md` has what each means. */
export type RefusalCode = "protocol" | "fence" | "session" | "stale"

export type Message =
  | { readonly type: "hello"; readonly hello: Hello }
  /** The runner's answer: the last frame that it has, and whether it knows channels of kind `port`. Older runners and workers ignore it. */
  | { readonly type: "welcome"; readonly received: number; readonly ports?: true }
  /** `fence` is the highest that the runner has seen. */
  | { readonly type: "refused"; readonly code: RefusalCode; readonly fence: number }
  | { readonly type: "frame"; readonly number: number; readonly payload: Uint8Array }
  /** The sender is alive and has all frames up to this one. */
  | { readonly type: "beat"; readonly received: number }
  /** The worker is done with all it has there. */
  | { readonly type: "bye" }

const HELLO = 1
const WELCOME = 2
const REFUSED = 3
const FRAME = 4
const BEAT = 5
const BYE = 6

const NUMBER_BYTES = 6

/** Frames are numbered from 1 in each direction, in 48 bits: at a million a second they last for nine years. */
export const LAST_NUMBER = 2 ** 48 - 1

const view = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

const greeting = (type: number, value: object): Uint8Array => Buffer.concat([Buffer.of(type), Buffer.from(JSON.stringify(value))])

const numbered = (type: number, number: number, payload: Uint8Array = new Uint8Array()): Uint8Array => {
  const bytes = Buffer.allocUnsafe(1 + NUMBER_BYTES + payload.length)
  bytes[0] = type
  bytes.writeUIntBE(number, 1, NUMBER_BYTES)
  bytes.set(payload, 1 + NUMBER_BYTES)
  return bytes
}

export const encode = (message: Message): Uint8Array => {
  switch (message.type) {
    case "hello":
      return greeting(HELLO, message.hello)
    case "welcome":
      return greeting(WELCOME, { received: message.received, ...message.ports === true ? { ports: true } : {} })
    case "refused":
      return greeting(REFUSED, { code: message.code, fence: message.fence })
    case "frame":
      return numbered(FRAME, message.number, message.payload)
    case "beat":
      return numbered(BEAT, message.received)
    case "bye":
      return Buffer.of(BYE)
  }
}

/** An object of JSON; throws `Violation` for anything else, or for more than `most` bytes. */
export const decodeObject = (bytes: Uint8Array, most: number): Readonly<Record<string, unknown>> => {
  if (bytes.length > most) throw new Violation(`a header of ${bytes.length} bytes, ${most} are allowed`)
  let value: unknown
  try {
    value = JSON.parse(view(bytes).toString("utf8"))
  } catch {
    throw new Violation("a header that is no JSON")
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Violation("a header that is no object")
  return { ...value }
}

/** Whole and not below zero: a size, a fence, the number of a frame. */
export const isCount = (value: unknown): value is number => typeof value === "number" && Number.isSafeInteger(value) && value >= 0

const isNumber = (value: unknown): value is number => isCount(value) && value <= LAST_NUMBER

const isRefusal = (value: unknown): value is RefusalCode =>
  value === "protocol" || value === "fence" || value === "session" || value === "stale"

/** Throws `Violation` for what is no message. The payload of a frame is a part of `bytes`. */
export const decode = (bytes: Uint8Array): Message => {
  const buffer = view(bytes)
  const body = buffer.subarray(1)
  switch (buffer[0]) {
    case HELLO: {
      const { attempt, fence, protocol, received, resumes, session } = decodeObject(body, GREETING_BYTES)
      // The other fields of another protocol are not checked.
      if (isCount(protocol) && protocol !== PROTOCOL) {
        return { type: "hello", hello: { protocol, session: "", fence: 0, attempt: 0, resumes: false, received: 0 } }
      }
      if (
        isCount(protocol) && typeof session === "string" && /^[\da-f]{32}$/u.test(session) && isCount(fence) && isCount(attempt) &&
        typeof resumes === "boolean" && isNumber(received)
      ) return { type: "hello", hello: { protocol, session, fence, attempt, resumes, received } }
      break
    }
    case WELCOME: {
      const { ports, received } = decodeObject(body, GREETING_BYTES)
      if (isNumber(received)) return { type: "welcome", received, ...ports === true ? { ports } : {} }
      break
    }
    case REFUSED: {
      const { code, fence } = decodeObject(body, GREETING_BYTES)
      if (isRefusal(code) && isCount(fence)) return { type: "refused", code, fence }
      break
    }
    case FRAME:
      if (body.length > NUMBER_BYTES) {
        return { type: "frame", number: body.readUIntBE(0, NUMBER_BYTES), payload: body.subarray(NUMBER_BYTES) }
      }
      break
    case BEAT:
      if (body.length === NUMBER_BYTES) return { type: "beat", received: body.readUIntBE(0, NUMBER_BYTES) }
      break
    case BYE:
      if (body.length === 0) return { type: "bye" }
      break
  }
  throw new Violation("a message of no known kind")
}
