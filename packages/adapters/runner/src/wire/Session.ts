/**
 * One side of a session: numbers what it sends, keeps it until the other side has it, and takes what comes once and in order. It
 * outlives connections: after each new one, sending goes on from where the other side stands.
 */
import { encode, LAST_NUMBER, Violation } from "./Wire.ts"

/** So much may wait to be acknowledged before `hasRoom` is false, in bytes. Twice a fast line of 1 Gbit/s over 16 ms. */
const ROOM_BYTES = 4 * 1024 * 1024

/**
 * The limit of all kept frames. Messages that must not wait (credit, ends, resets) are few for each channel, so a side reaches it only if
 * the other one never acknowledges.
 */
const KEPT_BYTES = 2 * ROOM_BYTES
const KEPT_FRAMES = 16_384

export class Session {
  /** By number, as messages. */
  readonly #kept = new Map<number, Uint8Array>()
  #keptBytes = 0
  /** All up to this one are acknowledged. */
  #acknowledged = 0
  /** The last that was given out for the present connection. */
  #sent = 0
  /** The last there is. */
  #last = 0
  #received = 0

  /** The number of the last received frame; 0: no frame. */
  get received(): number {
    return this.#received
  }

  /** Whether what can wait should be offered now. */
  get hasRoom(): boolean {
    return this.#keptBytes < ROOM_BYTES
  }

  get keptBytes(): number {
    return this.#keptBytes
  }

  /** Takes what is to be sent. Throws `Violation` where the other side has acknowledged nothing for too much. */
  offer(payload: Uint8Array): void {
    if (this.#last === LAST_NUMBER) throw new Violation("a session with no numbers left")
    const message = encode({ type: "frame", number: this.#last + 1, payload })
    if (this.#keptBytes + message.length > KEPT_BYTES || this.#kept.size >= KEPT_FRAMES) {
      throw new Violation("too many unacknowledged frames")
    }
    this.#last++
    this.#kept.set(this.#last, message)
    this.#keptBytes += message.length
  }

  /** The next message for the present connection; `undefined`: all was given out. */
  next(): Uint8Array | undefined {
    const message = this.#kept.get(this.#sent + 1)
    if (message !== undefined) this.#sent++
    return message
  }

  /** A new connection, to a side that has all frames up to `received`: sending begins after it. */
  resume(received: number): void {
    // The other side cannot have an unsent frame, and cannot lose a frame that it acknowledged.
    if (received > this.#last || received < this.#acknowledged) throw new Violation("an impossible place in the session")
    this.#sent = Math.max(this.#sent, received)
    this.acknowledge(received)
    this.#sent = received
  }

  /** The other side has all frames up to `received`. What it said before, it may say again. */
  acknowledge(received: number): void {
    if (received > this.#sent) throw new Violation("an acknowledgement of what was not sent")
    while (this.#acknowledged < received) {
      this.#acknowledged++
      this.#keptBytes -= this.#kept.get(this.#acknowledged)?.length ?? 0
      this.#kept.delete(this.#acknowledged)
    }
  }

  /** A frame arrived. A connection keeps order and sends nothing twice, so a gap in the numbers is a protocol violation. */
  take(number: number): void {
    if (number !== this.#received + 1) throw new Violation(`frame ${number} after frame ${this.#received}`)
    this.#received = number
  }
}
