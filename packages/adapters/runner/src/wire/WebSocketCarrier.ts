/** A WebSocket as a `Carrier`, with the same care for both sides. */
import type { RawData, WebSocket } from "ws"
import type { Carrier } from "./Peer.ts"
import { decode, type Message, MESSAGE_BYTES, Violation } from "./Wire.ts"

/**
 * A side that sends more messages in a second is read on in the next: what is small and costs no credit shall not take all of the
 * other's time. At 64 KiB a chunk it is more than 1 GB a second.
 */
const MESSAGES_A_SECOND = 20_000

/** The options of both ends. Compression is off: it would reveal the lengths of secrets and take memory. */
export const options = {
  maxPayload: MESSAGE_BYTES,
  maxFragments: 64,
  maxBufferedChunks: 1024,
  perMessageDeflate: false,
  // Pings of WebSocket are not used, and answering a flood of them would be work.
  autoPong: false,
  skipUTF8Validation: true
} as const

export interface Heard {
  readonly onMessage: (message: Message) => void
  /** An invalid message arrived; the connection is closed already. */
  readonly onViolation: (violation: Violation) => void
  /** Called once, by whichever side it was closed. */
  readonly onClose: () => void
}

const bytesOf = (data: RawData): Uint8Array =>
  Array.isArray(data) ? Buffer.concat(data) : data instanceof ArrayBuffer ? new Uint8Array(data) : data

export const carrierOf = (socket: WebSocket, { onClose, onMessage, onViolation }: Heard): Carrier => {
  let second = 0
  let messages = 0
  let isClosed = false
  const close = () => {
    isClosed = true
    socket.terminate()
  }
  const broken = (violation: Violation) => {
    close()
    onViolation(violation)
  }
  const slowDown = () => {
    const now = performance.now()
    if (now - second >= 1000) {
      second = now
      messages = 0
    }
    if (++messages < MESSAGES_A_SECOND || socket.isPaused) return
    socket.pause()
    setTimeout(() => {
      if (!isClosed) socket.resume()
    }, second + 1000 - now).unref()
  }
  socket.on("message", (data, isBinary) => {
    if (isClosed) return
    slowDown()
    let message: Message
    try {
      if (!isBinary) throw new Violation("a message that is text")
      message = decode(bytesOf(data))
    } catch (error) {
      if (!(error instanceof Violation)) throw error
      broken(error)
      return
    }
    onMessage(message)
  })
  socket.on("error", (error) => {
    // Errors of the WebSocket library (too long, malformed) come from the other side; errors of the network only end the connection.
    if (!isClosed && "code" in error && typeof error.code === "string" && error.code.startsWith("WS_ERR_")) {
      broken(new Violation(`an invalid WebSocket frame (${error.code})`))
    }
  })
  socket.on("close", () => {
    isClosed = true
    onClose()
  })
  return {
    send: (message, taken) => {
      socket.send(message, { binary: true, compress: false }, (error) => {
        if (error === undefined || error === null) taken()
      })
    },
    waitingBytes: () => socket.bufferedAmount,
    close
  }
}
