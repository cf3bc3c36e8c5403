/** The content of a session's frames: messages of channels. Each begins with its type and the channel's number. */
import { CHUNK_BYTES, decodeObject, HEADER_BYTES, isCount, NOTE_BYTES, Violation } from "./Wire.ts"

/** The purpose of a channel. The worker opens processes, files, homes and ports, the runner opens egress tunnels. */
export type Kind = "process" | "file" | "home" | "port" | "dial"

export type Json = Readonly<Record<string, unknown>>

/** The reason of a reset. */
export interface Reason {
  /** One word for programs. */
  readonly code: string
  /** For the operator; a hostile machine may send anything. */
  readonly message: string
}

export type ChannelMessage =
  | { readonly type: "open"; readonly channel: number; readonly kind: Kind; readonly header: Json }
  | { readonly type: "bytes"; readonly channel: number; readonly bytes: Uint8Array }
  /** Nothing comes after it in this direction. */
  | { readonly type: "end"; readonly channel: number }
  /** The number of further bytes that may be sent, by `costOf`. */
  | { readonly type: "credit"; readonly channel: number; readonly credit: number }
  | { readonly type: "reset"; readonly channel: number; readonly reason: Reason }
  /** Delivered when it arrives, independent of the bytes. */
  | { readonly type: "note"; readonly channel: number; readonly note: Json }

const OPEN = 1
const BYTES = 2
const END = 3
const CREDIT = 4
const RESET = 5
const NOTE = 6

const START_BYTES = 5
const REASON_CHARACTERS = 1000

const view = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

const start = (type: number, channel: number, more: number): Buffer => {
  const bytes = Buffer.allocUnsafe(START_BYTES + more)
  bytes[0] = type
  bytes.writeUInt32BE(channel, 1)
  return bytes
}

const withBytes = (type: number, channel: number, content: Uint8Array): Uint8Array => {
  const bytes = start(type, channel, content.length)
  bytes.set(content, START_BYTES)
  return bytes
}

const withObject = (type: number, channel: number, value: object): Uint8Array =>
  withBytes(type, channel, Buffer.from(JSON.stringify(value)))

export const encode = (message: ChannelMessage): Uint8Array => {
  switch (message.type) {
    case "open":
      return withObject(OPEN, message.channel, { kind: message.kind, header: message.header })
    case "bytes":
      return withBytes(BYTES, message.channel, message.bytes)
    case "end":
      return start(END, message.channel, 0)
    case "credit": {
      const bytes = start(CREDIT, message.channel, 4)
      bytes.writeUInt32BE(message.credit, START_BYTES)
      return bytes
    }
    case "reset": {
      const { code, message: text } = message.reason
      return withObject(RESET, message.channel, { code: code.slice(0, 50), message: text.slice(0, REASON_CHARACTERS) })
    }
    case "note":
      return withObject(NOTE, message.channel, message.note)
  }
}

/** The head of a message, without decoding it. Throws `Violation`. */
export const peek = (payload: Uint8Array): { readonly isOpen: boolean; readonly channel: number; readonly isBytes: boolean } => {
  if (payload.length < START_BYTES) throw new Violation("a frame that is too short")
  return { isOpen: payload[0] === OPEN, isBytes: payload[0] === BYTES, channel: view(payload).readUInt32BE(1) }
}

/** Throws `Violation` for an invalid message. The bytes are a part of `payload`. */
export const decode = (payload: Uint8Array): ChannelMessage => {
  if (payload.length < START_BYTES) throw new Violation("a frame that is too short")
  const buffer = view(payload)
  const channel = buffer.readUInt32BE(1)
  const body = buffer.subarray(START_BYTES)
  switch (buffer[0]) {
    case OPEN: {
      const { header, kind } = decodeObject(body, HEADER_BYTES)
      if (kind !== "process" && kind !== "file" && kind !== "home" && kind !== "port" && kind !== "dial") {
        throw new Violation("a channel of an unknown kind")
      }
      if (typeof header !== "object" || header === null || Array.isArray(header)) throw new Violation("a channel without a header")
      // Only the headers of a worker may be long. This one comes from a runner.
      if (kind === "dial" && body.length > NOTE_BYTES) throw new Violation("a header that is too long")
      return { type: "open", channel, kind, header: { ...header } }
    }
    case BYTES:
      if (body.length === 0 || body.length > CHUNK_BYTES) throw new Violation(`a chunk of ${body.length} bytes`)
      return { type: "bytes", channel, bytes: body }
    case END:
      if (body.length === 0) return { type: "end", channel }
      break
    case CREDIT:
      if (body.length === 4) return { type: "credit", channel, credit: body.readUInt32BE(0) }
      break
    case RESET: {
      const { code, message } = decodeObject(body, NOTE_BYTES)
      if (typeof code !== "string" || typeof message !== "string") break
      return { type: "reset", channel, reason: { code: code.slice(0, 50), message: message.slice(0, REASON_CHARACTERS) } }
    }
    case NOTE:
      return { type: "note", channel, note: decodeObject(body, NOTE_BYTES) }
  }
  throw new Violation("a frame that is no message of a channel")
}

/** The cost of bytes in credit: their length and the overhead of keeping them, so that single bytes cannot fill the memory. */
export const costOf = (bytes: Uint8Array): number => bytes.length + CHUNK_COST

export const CHUNK_COST = 256

/** The initial and the highest credit of each direction of a channel. */
export const WINDOW = 256 * 1024

/** The limit of `credit`: a side never returns more than a window. */
export const isCredit = (credit: number): boolean => isCount(credit) && credit > 0 && credit <= WINDOW
