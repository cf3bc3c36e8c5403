/** One channel of a session: its queues, its credit, and how it ends. */
import { CHUNK_COST, type ChannelMessage, costOf, encode, isCredit, type Json, type Kind, type Reason, WINDOW } from "./ChannelWire.ts"
import { CHUNK_BYTES, Violation } from "./Wire.ts"

/** A write of more than this waits for credit of this size, so that a slow reader does not cause many small chunks. */
const CRUMB_BYTES = 16 * 1024

/** Notes that are kept until somebody listens. */
const MOST_NOTES = 16

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
  /** Waits for credit and for room; it keeps only written bytes. Rejects with `ChannelReset`. Writes run one after the other. */
  write(bytes: Uint8Array): Promise<void>
  /** Nothing more is written. Safe to call twice. */
  end(): void
  /** The next bytes; `null`: the other side wrote all it had. Rejects with `ChannelReset`; of a home, after the bytes before it. */
  read(): Promise<Uint8Array | null>
  /** The first of two steps of a read: waits until `take` has a result. A caller that gives up here loses no bytes. */
  arrival(): Promise<void>
  /** `undefined`: nothing has arrived. Throws `ChannelReset`. */
  take(): Uint8Array | null | undefined
  /** Sends JSON of at most 16 KiB beside the bytes. It is delivered at once; after a reset it is dropped. */
  note(note: Json): void
  /** Ends the channel both ways, for both sides. Safe to call twice. */
  reset(reason: Reason): void
  /** Listens to the notes of the other side; earlier notes come first. */
  onNote(listener: (note: Json) => void): void
  /** Resolves once with the reason of a reset; never if both sides end. */
  readonly wasReset: Promise<Reason>
}

export interface Options {
  readonly channel: number
  readonly kind: Kind
  readonly send: (payload: Uint8Array) => void
  /** Whether what can wait should be sent now. `wake` is called when it should. */
  readonly hasRoom: () => boolean
  /** Called once, when the channel is closed and everything that arrived was read. */
  readonly onClose: () => void
}

export class OpenChannel implements Channel {
  readonly kind: Kind
  readonly wasReset: Promise<Reason>
  readonly #options: Options
  readonly #incoming: Array<Uint8Array> = []
  readonly #notes: Array<Json> = []
  #listener: ((note: Json) => void) | undefined
  /** Bytes that this side may send. */
  #credit = WINDOW
  /** Bytes that the other side may send. */
  #granted = WINDOW
  /** Bytes that were read since the other side last got credit. */
  #owed = 0
  #ended = false
  #theyEnded = false
  #reason: Reason | undefined
  #isClosed = false
  #writing: Promise<void> = Promise.resolve()
  #wakeWriter: (() => void) | undefined
  /** Shared by all readers. */
  #arriving: Promise<void> | undefined
  #arrived: () => void = () => {}
  #resolveReset: (reason: Reason) => void = () => {}

  constructor(options: Options) {
    this.#options = options
    this.kind = options.kind
    this.wasReset = new Promise((resolve) => {
      this.#resolveReset = resolve
    })
  }

  write(bytes: Uint8Array): Promise<void> {
    const written = this.#writing.then(() => this.#writeAll(bytes))
    this.#writing = written.catch(() => {})
    return written
  }

  async #writeAll(bytes: Uint8Array): Promise<void> {
    const { channel, send } = this.#options
    for (let left = bytes; left.length > 0;) {
      while (this.#mustWait(left.length)) {
        await new Promise<void>((resolve) => {
          this.#wakeWriter = resolve
        })
      }
      if (this.#reason !== undefined) throw new ChannelReset(this.#reason)
      if (this.#ended) throw new ChannelReset({ code: "ended", message: "it was ended" })
      const chunk = left.subarray(0, Math.min(CHUNK_BYTES, this.#credit - CHUNK_COST))
      this.#credit -= costOf(chunk)
      send(encode({ type: "bytes", channel, bytes: chunk }))
      left = left.subarray(chunk.length)
    }
  }

  #mustWait(length: number): boolean {
    if (this.#reason !== undefined || this.#ended) return false
    return this.#credit < Math.min(length, CRUMB_BYTES) + CHUNK_COST || !this.#options.hasRoom()
  }

  end(): void {
    if (this.#ended || this.#reason !== undefined) return
    const { channel, send } = this.#options
    this.#ended = true
    this.wake()
    send(encode({ type: "end", channel }))
    this.#closeAtEnd()
  }

  async read(): Promise<Uint8Array | null> {
    for (;;) {
      const bytes = this.take()
      if (bytes !== undefined) return bytes
      await this.arrival()
    }
  }

  async arrival(): Promise<void> {
    if (this.#reason !== undefined || this.#incoming.length > 0 || this.#theyEnded) return
    this.#arriving ??= new Promise((resolve) => {
      this.#arrived = resolve
    })
    await this.#arriving
  }

  take(): Uint8Array | null | undefined {
    const bytes = this.#incoming.shift()
    if (bytes === undefined && this.#reason !== undefined) throw new ChannelReset(this.#reason)
    if (bytes === undefined) return this.#theyEnded ? null : undefined
    this.#giveCredit(bytes)
    this.#closeAtEnd()
    return bytes
  }

  /** Gives credit in halves of the window, so that a window costs two messages. */
  #giveCredit(bytes: Uint8Array): void {
    const { channel, send } = this.#options
    this.#owed += costOf(bytes)
    if (this.#theyEnded || this.#reason !== undefined || this.#owed < WINDOW / 2) return
    this.#granted += this.#owed
    send(encode({ type: "credit", channel, credit: this.#owed }))
    this.#owed = 0
  }

  note(note: Json): void {
    const { channel, send } = this.#options
    if (!this.#isClosed) send(encode({ type: "note", channel, note }))
  }

  onNote(listener: (note: Json) => void): void {
    this.#listener = listener
    for (const note of this.#notes.splice(0)) listener(note)
  }

  reset(reason: Reason): void {
    if (this.#reason !== undefined || this.#isClosed) return
    const { channel, send } = this.#options
    send(encode({ type: "reset", channel, reason }))
    this.fail(reason)
  }

  /** Ends the channel on this side alone, and forgets unread bytes. */
  fail(reason: Reason): void {
    if (this.#reason !== undefined || this.#isClosed) return
    this.#incoming.length = 0
    this.#end(reason)
  }

  #end(reason: Reason): void {
    if (this.#reason !== undefined || this.#isClosed) return
    this.#reason = reason
    this.#resolveReset(reason)
    this.#close()
    this.wake()
    this.#arrive()
  }

  /** Lets a waiting write look again. */
  wake(): void {
    this.#wakeWriter?.()
    this.#wakeWriter = undefined
  }

  #arrive(): void {
    this.#arriving = undefined
    this.#arrived()
  }

  /** A channel with unread bytes stays open, because they are kept. */
  #closeAtEnd(): void {
    if (this.#ended && this.#theyEnded && this.#incoming.length === 0) this.#close()
  }

  #close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#options.onClose()
  }

  /** A message of the other side. Throws `Violation`. */
  receive(message: ChannelMessage): void {
    switch (message.type) {
      case "bytes":
        this.#receiveBytes(message.bytes)
        return
      case "end":
        if (this.#theyEnded) throw new Violation("a second end")
        this.#theyEnded = true
        this.#arrive()
        this.#closeAtEnd()
        return
      case "credit":
        if (!isCredit(message.credit) || this.#credit + message.credit > WINDOW) throw new Violation("more credit than there is")
        this.#credit += message.credit
        this.wake()
        return
      case "reset":
        // Files of a home are read up to the first that is too large: the bytes before the reset are theirs.
        if (this.kind === "home") this.#end(message.reason)
        else this.fail(message.reason)
        return
      case "note":
        if (this.#listener !== undefined) this.#listener(message.note)
        else if (this.#notes.length < MOST_NOTES) this.#notes.push(message.note)
        else throw new Violation("more notes than anybody waits for")
    }
  }

  #receiveBytes(bytes: Uint8Array): void {
    const cost = costOf(bytes)
    if (this.#theyEnded) throw new Violation("bytes after their end")
    if (cost > this.#granted) throw new Violation("more bytes than were asked for")
    this.#granted -= cost
    // A copy: the bytes may be a small part of a large buffer.
    this.#incoming.push(new Uint8Array(bytes))
    this.#arrive()
  }
}
