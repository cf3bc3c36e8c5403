/**
 * The channels of a session: streams of bytes both ways, each with its own end, credit and reset. A reader that is slow stops its own
 * channel alone. What the other side does against the bounds throws `Violation`, and the session ends with it.
 */
import type * as RateLimiter from "@slipway/domain/time/RateLimiter"
import {
  CHUNK_COST,
  type ChannelMessage,
  costOf,
  decode,
  encode,
  isCredit,
  type Json,
  type Kind,
  peek,
  type Reason,
  WINDOW
} from "./ChannelWire.ts"
import { CHUNK_BYTES, NOTE_BYTES, Violation } from "./Wire.ts"

/** Of either side's, at once. With `WINDOW` it bounds what a session keeps of what nobody reads: 32 MiB. */
export const MOST_CHANNELS = 64

/** A chunk smaller than what is left to write waits for credit of this size, so that slow readers do not get crumbs. */
const CRUMB_BYTES = 16 * 1024

/**
 * What messages beside the bytes of channels take of the event loop, in microseconds (2026-11): a new way out with its fibers and its
 * connection, anything else, and what it takes to read them.
 */
const OPEN_COST = 400
const MESSAGE_COST = 12
const BYTES_A_MICRO = 50

/** What a runner may cost its worker: 500 new ways a second, 1,500 at once after a cut. */
export const BUDGET = { perSecond: 200_000, atOnce: 600_000 }

const LAST_CHANNEL = 2 ** 32 - 3

/** A channel that ended before its end. */
export class ChannelReset extends Error {
  override readonly name = "ChannelReset"
  readonly reason: Reason
  constructor(reason: Reason) {
    super(`${reason.code}: ${reason.message}`)
    this.reason = reason
  }
}

export interface Channel {
  readonly kind: Kind
  /** Waits for credit and for room; nothing is kept that was not written. Rejects with `ChannelReset`. One after the other. */
  readonly write: (bytes: Uint8Array) => Promise<void>
  /** Nothing more is written. Safe to call twice. */
  readonly end: () => void
  /** The next bytes; `null`: the other side wrote all it had. Rejects with `ChannelReset`. */
  readonly read: () => Promise<Uint8Array | null>
  /** The same in two steps, of which whoever gives up the first loses nothing: it waits until `take` has something to say. */
  readonly arrival: () => Promise<void>
  /** `undefined`: nothing came yet. Throws `ChannelReset`. */
  readonly take: () => Uint8Array | null | undefined
  /** Something beside the bytes, heard at once, 16 KiB of JSON at most. Nothing after a reset. */
  readonly note: (note: Json) => void
  /** Ends it both ways, for both. Safe to call twice. */
  readonly reset: (reason: Reason) => void
  /** What the other side notes from now on; what it noted before comes first. */
  readonly onNote: (listener: (note: Json) => void) => void
  /** Resolves once with why it was reset; never where both sides came to their ends. */
  readonly wasReset: Promise<Reason>
}

export interface Options {
  /** Workers open odd numbers, runners even ones. */
  readonly side: "worker" | "runner"
  /** To the other side, in order. */
  readonly send: (payload: Uint8Array) => void
  /** Whether what can wait should be sent now. `roomAgain` is called when it should. */
  readonly hasRoom: () => boolean
  /** What the other side may cost of this one's event loop beside the bytes of channels. Without it, anything. */
  readonly budget?: RateLimiter.Allowance
  /** What the other side may open, and who gets it. */
  readonly accept: Readonly<Partial<Record<Kind, (channel: Channel, header: Json) => void>>>
}

interface State extends Channel {
  readonly receive: (message: ChannelMessage) => void
  readonly wake: () => void
  readonly fail: (reason: Reason) => void
}

/** Notes that nobody listens to yet. */
const MOST_NOTES = 16

export class Channels {
  readonly #options: Options
  readonly #open = new Map<number, State>()
  /** Of those that this side opened. */
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

  /** How many are open, of both sides. */
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

  /** The same in two steps, of which whoever gives up the first has opened nothing: it waits until `openNow` may have room. */
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
    // What is read of a channel is bounded by its credit.
    if (state === undefined || !isBytes) this.#pay(isOpen ? OPEN_COST : MESSAGE_COST, payload.length)
    if (isOpen) {
      if (!this.#mayBeTheirs(channel)) throw new Violation("a channel with a number it cannot have")
      if (this.#options.side === "worker" && payload.length > 2 * NOTE_BYTES) throw new Violation("a header that is too long")
      const message = decode(payload)
      if (message.type === "open") this.#accept(channel, message.kind, message.header)
    } else if (state !== undefined) state.receive(decode(payload))
    // This side may have closed it while that was on its way: nothing of it is read.
    else if (!this.#wasOpen(channel)) throw new Violation("a message for a channel that nobody opened")
  }

  #pay(cost: number, bytes: number): void {
    const { budget } = this.#options
    if (budget !== undefined && !budget.take(cost + bytes / BYTES_A_MICRO, performance.now())) {
      throw new Violation("more messages than one side may send in a second")
    }
  }

  /** There is room again for what waited. */
  roomAgain(): void {
    for (const state of this.#open.values()) state.wake()
    this.#changed()
  }

  /** Resets all that are open, on this side, and every one that is asked for later. */
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

  #make(channel: number, kind: Kind, count: () => void): State {
    const { hasRoom, send } = this.#options
    const incoming: Array<Uint8Array> = []
    const notes: Array<Json> = []
    /** What this side may send. */
    let credit = WINDOW
    /** What the other side may send, and what was read of it since it was last told. */
    let granted = WINDOW
    let owed = 0
    let ended = false
    let theyEnded = false
    let reason: Reason | undefined
    let isClosed = false
    let writing: Promise<void> = Promise.resolve()
    let wakeWriter: (() => void) | undefined
    /** Of all who read. */
    let arriving: Promise<void> | undefined
    let arrived: () => void = () => {}
    let listener: ((note: Json) => void) | undefined
    let tellReset: (reason: Reason) => void = () => {}
    const wasReset = new Promise<Reason>((resolve) => {
      tellReset = resolve
    })

    const close = () => {
      if (isClosed) return
      isClosed = true
      this.#open.delete(channel)
      count()
      this.#changed()
    }
    const wake = () => {
      wakeWriter?.()
      wakeWriter = undefined
    }
    /** What came and was not read counts as open: it is kept. */
    const closeAtEnd = () => {
      if (ended && theyEnded && incoming.length === 0) close()
    }
    const fail = (why: Reason) => {
      if (reason !== undefined || isClosed) return
      reason = why
      incoming.length = 0
      tellReset(why)
      close()
      wake()
      arrive()
    }
    const arrive = () => {
      arriving = undefined
      arrived()
    }
    const arrival = async () => {
      if (reason !== undefined || incoming.length > 0 || theyEnded) return
      arriving ??= new Promise((resolve) => {
        arrived = resolve
      })
      await arriving
    }
    const take = () => {
      if (reason !== undefined) throw new ChannelReset(reason)
      const bytes = incoming.shift()
      if (bytes === undefined) return theyEnded ? null : undefined
      pay(bytes)
      closeAtEnd()
      return bytes
    }
    const pay = (bytes: Uint8Array) => {
      owed += costOf(bytes)
      // In halves, so that a window costs two messages.
      if (theyEnded || owed < WINDOW / 2) return
      granted += owed
      send(encode({ type: "credit", channel, credit: owed }))
      owed = 0
    }
    const writeAll = async (bytes: Uint8Array) => {
      for (let left = bytes; left.length > 0;) {
        while (reason === undefined && !ended && (credit < Math.min(left.length, CRUMB_BYTES) + CHUNK_COST || !hasRoom())) {
          await new Promise<void>((resolve) => {
            wakeWriter = resolve
          })
        }
        if (reason !== undefined) throw new ChannelReset(reason)
        if (ended) throw new ChannelReset({ code: "ended", message: "it was ended" })
        const chunk = left.subarray(0, Math.min(CHUNK_BYTES, credit - CHUNK_COST))
        credit -= costOf(chunk)
        send(encode({ type: "bytes", channel, bytes: chunk }))
        left = left.subarray(chunk.length)
      }
    }

    const state: State = {
      kind,
      wasReset,
      write: (bytes) => {
        const written = writing.then(() => writeAll(bytes))
        writing = written.catch(() => {})
        return written
      },
      end: () => {
        if (ended || reason !== undefined) return
        ended = true
        wake()
        send(encode({ type: "end", channel }))
        closeAtEnd()
      },
      arrival,
      take,
      read: async () => {
        for (;;) {
          const bytes = take()
          if (bytes !== undefined) return bytes
          await arrival()
        }
      },
      note: (note) => {
        if (!isClosed) send(encode({ type: "note", channel, note }))
      },
      reset: (why) => {
        if (reason !== undefined || isClosed) return
        send(encode({ type: "reset", channel, reason: why }))
        fail(why)
      },
      onNote: (heard) => {
        listener = heard
        for (const note of notes.splice(0)) heard(note)
      },
      wake,
      fail,
      receive: (message) => {
        switch (message.type) {
          case "bytes": {
            const cost = costOf(message.bytes)
            if (theyEnded) throw new Violation("bytes after their end")
            if (cost > granted) throw new Violation("more bytes than were asked for")
            granted -= cost
            // A copy of their own: what came may be a small part of something large.
            incoming.push(new Uint8Array(message.bytes))
            arrive()
            return
          }
          case "end":
            if (theyEnded) throw new Violation("a second end")
            theyEnded = true
            arrive()
            closeAtEnd()
            return
          case "credit":
            if (!isCredit(message.credit) || credit + message.credit > WINDOW) throw new Violation("more credit than there is")
            credit += message.credit
            wake()
            return
          case "reset":
            fail(message.reason)
            return
          case "note":
            if (listener !== undefined) listener(message.note)
            else if (notes.length < MOST_NOTES) notes.push(message.note)
            else throw new Violation("more notes than anybody waits for")
        }
      }
    }
    this.#open.set(channel, state)
    return state
  }
}
