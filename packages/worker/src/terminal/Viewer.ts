/** The queue of one attachment to a terminal: bounded, and skipped while its reader takes nothing. */
import type { TerminalEnd, TerminalOutput } from "@slipway/domain/sandbox/ports/Terminals"
import { Effect, Latch, Option, Stream } from "effect"

/** Bytes that wait for a reader before the terminal waits for it too. */
export const QUEUE_BYTES = 256 * 1024

export class Viewer {
  readonly #some = Latch.makeUnsafe(false)
  readonly #room = Latch.makeUnsafe(true)
  #chunks: Array<Uint8Array> = []
  #queued = 0
  #skipped = 0
  #isSkipping = false
  #end: { readonly reason: TerminalEnd; readonly code: number | null } | null = null
  /** Grows with each time the reader takes something. */
  taken = 0

  /** `scrollback`: the first bytes. */
  constructor(scrollback: Uint8Array) {
    this.push(scrollback)
  }

  push(bytes: Uint8Array): void {
    if (this.#end !== null || bytes.length === 0) return
    if (this.#isSkipping) this.#skipped += bytes.length
    else {
      this.#chunks.push(bytes)
      this.#queued += bytes.length
      if (this.isFull) this.#room.closeUnsafe()
    }
    this.#some.openUnsafe()
  }

  get isFull(): boolean {
    return this.#queued >= QUEUE_BYTES
  }

  /** Waits until the reader has taken what was queued. */
  get room(): Effect.Effect<void> {
    return this.#room.await
  }

  /** Drops what waits. The reader gets the number of bytes, then what comes after it reads again. */
  skip(): void {
    this.#skipped += this.#queued
    this.#isSkipping = true
    this.#chunks = []
    this.#queued = 0
    this.#room.openUnsafe()
    this.#some.openUnsafe()
  }

  end(reason: TerminalEnd, code: number | null): void {
    this.#end ??= { reason, code }
    this.#room.openUnsafe()
    this.#some.openUnsafe()
  }

  #take(): ReadonlyArray<TerminalOutput> {
    this.#some.closeUnsafe()
    this.taken++
    const taken: Array<TerminalOutput> = []
    if (this.#skipped > 0) taken.push({ _tag: "Skipped", count: this.#skipped })
    for (const bytes of this.#chunks) taken.push({ _tag: "Bytes", bytes })
    this.#skipped = 0
    this.#isSkipping = false
    this.#chunks = []
    this.#queued = 0
    this.#room.openUnsafe()
    return taken
  }

  /** Takes what is queued, each time the reader asks. */
  get output(): Stream.Stream<TerminalOutput> {
    let isOver = false
    const next = Effect.gen({ self: this }, function*() {
      yield* this.#some.await
      const end = this.#end
      const taken = this.#take()
      if (end === null) return taken
      isOver = true
      return [...taken, { _tag: "Ended" as const, ...end }]
    })
    return Stream.paginate(undefined, () => Effect.map(next, (taken) => [taken, isOver ? Option.none() : Option.some(undefined)] as const))
  }
}
