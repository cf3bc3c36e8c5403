/** One side of a session: its channels, and its present connection, if any. Both sides use it. */
import { Channels, type Options as ChannelOptions } from "./Channels.ts"
import type { Reason } from "./ChannelWire.ts"
import { Session } from "./Session.ts"
import { encode, type Message, Violation } from "./Wire.ts"

/** A connection that carries messages, in order and each whole, until it breaks. */
export interface Carrier {
  /** `taken` is called once the message is out of this process, or never. */
  readonly send: (message: Uint8Array, taken: () => void) => void
  /** The bytes of messages that were not taken yet. */
  readonly waitingBytes: () => number
  readonly close: () => void
}

/** So much is handed to a connection at once; an acknowledgement can still drop the rest. */
const HANDED_BYTES = 512 * 1024

export interface Options extends Pick<ChannelOptions, "side" | "accept" | "budget"> {
  /** The other side broke a rule. The peer is finished by then. */
  readonly onViolation: (violation: Violation) => void
}

export class Peer {
  readonly channels: Channels
  readonly #session = new Session()
  readonly #onViolation: (violation: Violation) => void
  #carrier: Carrier | undefined
  #isOver = false
  #owesBeat = false
  #hadRoom = true

  constructor({ accept, budget, onViolation, side }: Options) {
    this.#onViolation = onViolation
    this.channels = new Channels({
      side,
      accept,
      ...(budget === undefined ? {} : { budget }),
      hasRoom: () => this.#session.hasRoom,
      send: (payload) => {
        if (this.#isOver) return
        this.#guarded(() => {
          this.#session.offer(payload)
          if (!this.#session.hasRoom) this.#hadRoom = false
        })
        this.#flush()
      }
    })
  }

  /** The number of the last frame that came. */
  get received(): number {
    return this.#session.received
  }

  /** The bytes of frames that the other side has not acknowledged. */
  get keptBytes(): number {
    return this.#session.keptBytes
  }

  /** Whether it was finished. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** Goes on over this connection, whose other side has all frames up to `received`. The one before is closed. */
  attach(carrier: Carrier, received: number): void {
    if (this.#isOver) {
      carrier.close()
      return
    }
    this.detach()
    this.#carrier = carrier
    this.#owesBeat = false
    this.#guarded(() => this.#session.resume(received))
    this.#settle()
  }

  /** Closes the present connection; what comes over it from now on is not heard. */
  detach(): void {
    this.#carrier?.close()
    this.#carrier = undefined
  }

  /** The connection broke. A replaced connection is ignored. */
  lost(carrier: Carrier): void {
    if (carrier === this.#carrier) this.#carrier = undefined
  }

  /** Whether this is the connection that it has: of another one nothing is heard. */
  isOn(carrier: Carrier): boolean {
    return !this.#isOver && carrier === this.#carrier
  }

  /** A message over the connection that is `carrier`. */
  receive(carrier: Carrier, message: Message): void {
    if (!this.isOn(carrier)) return
    this.#guarded(() => {
      switch (message.type) {
        case "frame":
          this.#session.take(message.number)
          this.channels.receive(message.payload)
          if (!this.#owesBeat) {
            this.#owesBeat = true
            // One for all that came together.
            setImmediate(() => this.#flush())
          }
          return
        case "beat":
          this.#session.acknowledge(message.received)
          this.#settle()
          return
        default:
          throw new Violation(`a ${message.type} in the middle of a session`)
      }
    })
  }

  /** Says that this side is alive. */
  beat(): void {
    this.#owesBeat = true
    this.#flush()
  }

  /** Tells the other side that this one is done with all; `false`: there is no connection to say it on. */
  bye(): boolean {
    this.#carrier?.send(encode({ type: "bye" }), () => {})
    return this.#carrier !== undefined
  }

  /** Ends all channels of this side, and the connection. */
  finish(reason: Reason): void {
    if (this.#isOver) return
    this.#isOver = true
    this.detach()
    this.channels.finish(reason)
  }

  /** A violation of the other side ends the session at once. */
  violated(violation: Violation): void {
    if (this.#isOver) return
    this.finish({ code: "violation", message: violation.message })
    this.#onViolation(violation)
  }

  #guarded(action: () => void): void {
    try {
      action()
    } catch (error) {
      if (!(error instanceof Violation)) throw error
      this.violated(error)
    }
  }

  #settle(): void {
    this.#flush()
    if (this.#hadRoom || !this.#session.hasRoom) return
    this.#hadRoom = true
    this.channels.roomAgain()
  }

  #flush(): void {
    const carrier = this.#carrier
    if (carrier === undefined) return
    const again = () => {
      if (this.#carrier === carrier) this.#flush()
    }
    // Without this bound, a side that sends and never reads would be sent beats without end.
    if (this.#owesBeat && carrier.waitingBytes() < HANDED_BYTES) {
      this.#owesBeat = false
      carrier.send(encode({ type: "beat", received: this.#session.received }), again)
    }
    while (carrier.waitingBytes() < HANDED_BYTES) {
      const message = this.#session.next()
      if (message === undefined) return
      carrier.send(message, again)
    }
  }
}
