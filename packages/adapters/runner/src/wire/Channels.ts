/**
 * The channels of a session: streams of bytes both ways, each with its own end, credit and reset. A slow reader stops its own channel
 * alone. A message of the other side beyond the limits throws `Violation`, which ends the session.
 */
import type * as RateLimiter from "@slipway/domain/time/RateLimiter"
import { decode, encode, type Json, type Kind, peek, type Reason } from "./ChannelWire.ts"
import { type Channel, ChannelReset, OpenChannel } from "./OpenChannel.ts"
import { NOTE_BYTES, Violation } from "./Wire.ts"

/** Open channels of each side. With `WINDOW` it limits the unread bytes that a session keeps: 32 MiB. */
export const MOST_CHANNELS = 64

/**
 * The time that a message beside the bytes of channels takes of the event loop, in microseconds (2026-11): a new egress tunnel with its
 * fibers and its connection, any other message, and the bytes that are read in a microsecond.
 */
const OPEN_COST = 400
const MESSAGE_COST = 12
const BYTES_A_MICRO = 50

/** The costs that a runner may cause its worker: 500 new tunnels a second, 1,500 at once after a cut. */
export const BUDGET = { perSecond: 200_000, atOnce: 600_000 }

const LAST_CHANNEL = 2 ** 32 - 3

export interface Options {
  /** Workers open odd numbers, runners even ones. */
  readonly side: "worker" | "runner"
  /** To the other side, in order. */
  readonly send: (payload: Uint8Array) => void
  /** Whether what can wait should be sent now. `roomAgain` is called when it should. */
  readonly hasRoom: () => boolean
  /** The time of this event loop that the other side may use, beside the bytes of channels. Without it, any. */
  readonly budget?: RateLimiter.Allowance
  /** Handlers of the kinds of channels that the other side may open. */
  readonly accept: Readonly<Partial<Record<Kind, (channel: Channel, header: Json) => void>>>
}

export class Channels {
  readonly #options: Options
  readonly #open = new Map<number, OpenChannel>()
  /** Open channels that this side opened. */
  #ours = 0
  #theirs = 0
  #nextOurs: number
  #lastTheirs: number
  #waiting: Array<() => void> = []
  #over: Reason | undefined

  constructor(options: Options) {
    this.#options = options
    this.#nextOurs = options.side === "worker" ? 1 : 2
    this.#lastTheirs = options.side === "worker" ? 0 : -1
  }

  /** Open channels of both sides. */
  get size(): number {
    return this.#open.size
  }

  /** Waits while as many are open as may be, or while there is no room. Rejects with `ChannelReset` when the session is over. */
  async open(kind: Kind, header: Json): Promise<Channel> {
    for (;;) {
      const channel = this.openNow(kind, header)
      if (channel !== undefined) return channel
      await this.vacancy()
    }
  }

  /** The first of two steps of `open`: waits until `openNow` may have room. A caller that gives up here has opened nothing. */
  async vacancy(): Promise<void> {
    if (this.#isFull()) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  /** `undefined`: there is no room for it. Throws `ChannelReset`. */
  openNow(kind: Kind, header: Json): Channel | undefined {
    if (this.#over !== undefined) throw new ChannelReset(this.#over)
    if (this.#isFull()) return undefined
    const channel = this.#nextOurs
    if (channel > LAST_CHANNEL) throw new ChannelReset({ code: "exhausted", message: "no numbers are left for channels" })
    this.#nextOurs += 2
    this.#ours++
    const state = this.#make(channel, kind, () => this.#ours--)
    this.#options.send(encode({ type: "open", channel, kind, header }))
    return state
  }

  #isFull(): boolean {
    return this.#over === undefined && (this.#ours >= MOST_CHANNELS || !this.#options.hasRoom())
  }

  /** A frame of the other side. Throws `Violation`. */
  receive(payload: Uint8Array): void {
    const { channel, isBytes, isOpen } = peek(payload)
    const state = this.#open.get(channel)
    // The bytes of a channel are limited by its credit.
    if (state === undefined || !isBytes) this.#pay(isOpen ? OPEN_COST : MESSAGE_COST, payload.length)
    if (isOpen) {
      if (!this.#mayBeTheirs(channel)) throw new Violation("a channel with a number it cannot have")
      if (this.#options.side === "worker" && payload.length > 2 * NOTE_BYTES) throw new Violation("a header that is too long")
      const message = decode(payload)
      if (message.type === "open") this.#accept(channel, message.kind, message.header)
    } else if (state !== undefined) state.receive(decode(payload))
    // This side may have closed the channel while the message was on its way: the message is dropped.
    else if (!this.#wasOpen(channel)) throw new Violation("a message for an unopened channel")
  }

  #pay(cost: number, bytes: number): void {
    const { budget } = this.#options
    if (budget !== undefined && !budget.take(cost + bytes / BYTES_A_MICRO, performance.now())) {
      throw new Violation("more messages than one side may send in a second")
    }
  }

  /** Lets waiting writes and opens continue. */
  roomAgain(): void {
    for (const state of this.#open.values()) state.wake()
    this.#changed()
  }

  /** Resets all open channels on this side; later ones are refused. */
  finish(reason: Reason): void {
    this.#over = reason
    for (const state of [...this.#open.values()]) state.fail(reason)
    this.#changed()
  }

  #wasOpen(channel: number): boolean {
    const isOurs = channel % 2 === (this.#options.side === "worker" ? 1 : 0)
    return channel > 0 && (isOurs ? channel < this.#nextOurs : channel <= this.#lastTheirs)
  }

  #mayBeTheirs(channel: number): boolean {
    const isTheirs = channel % 2 === (this.#options.side === "worker" ? 0 : 1)
    return isTheirs && channel > this.#lastTheirs && channel <= LAST_CHANNEL
  }

  #accept(channel: number, kind: Kind, header: Json): void {
    const handler = this.#options.accept[kind]
    if (handler === undefined) throw new Violation(`a channel for a ${kind}, which is not theirs to open`)
    this.#lastTheirs = channel
    if (this.#theirs >= MOST_CHANNELS) {
      this.#options.send(encode({ type: "reset", channel, reason: { code: "busy", message: "as many are open as may be" } }))
      return
    }
    this.#theirs++
    handler(this.#make(channel, kind, () => this.#theirs--), header)
  }

  #changed(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }

  #make(channel: number, kind: Kind, count: () => void): OpenChannel {
    const { hasRoom, send } = this.#options
    const onClose = () => {
      this.#open.delete(channel)
      count()
      this.#changed()
    }
    const made = new OpenChannel({ channel, kind, send, hasRoom, onClose })
    this.#open.set(channel, made)
    return made
  }
}
