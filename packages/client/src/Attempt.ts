/** One attempt at a request: who may cut it off, and what that comes to. */
import { SlipwayError } from "./SlipwayError.ts"

/** Longer ones make timers fire at once. */
const LONGEST_TIMER_MILLIS = 2 ** 31 - 1

/** One attempt at a request. The caller's signal, the time limit and the idle limit end it; `code` of the error says which did. */
export class Attempt {
  readonly #controller = new AbortController()
  readonly #caller: AbortSignal | undefined
  readonly #cut = () => this.#controller.abort()
  #isLate = false

  /** Throws the reason when `caller` is aborted already. */
  constructor(caller: AbortSignal | undefined) {
    caller?.throwIfAborted()
    this.#caller = caller
    // Not `AbortSignal.any`, which Node has since 20.3 only; and a signal that lives long keeps nothing of us.
    caller?.addEventListener("abort", this.#cut, { once: true })
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** What `work` comes to. Fails with `timeout` when that takes longer, and with `unreachable` when the network does. */
  async within<A>(millis: number, work: () => Promise<A>): Promise<A> {
    const timer = setTimeout(() => {
      this.#isLate = true
      this.#cut()
    }, Math.min(millis, LONGEST_TIMER_MILLIS))
    try {
      return await work()
    } catch (cause) {
      this.#caller?.throwIfAborted()
      if (cause instanceof SlipwayError) throw cause
      if (this.#isLate) throw new SlipwayError(`Nothing came within ${millis} ms.`, { status: 0, code: "timeout" })
      throw new SlipwayError("The service could not be reached.", { status: 0, code: "unreachable", cause })
    } finally {
      clearTimeout(timer)
    }
  }

  /** The body piece by piece, as they are asked for: a reader may take its time, the service only `idleMillis` for each. */
  async *chunks(body: ReadableStream<Uint8Array>, idleMillis: number): AsyncGenerator<Uint8Array, void> {
    const reader = body.getReader()
    try {
      for (;;) {
        const { done, value } = await this.within(idleMillis, () => reader.read())
        if (done) return
        yield value
      }
    } finally {
      this.close()
    }
  }

  /** Gives up the connection, unless the reply is whole. */
  close(): void {
    this.#caller?.removeEventListener("abort", this.#cut)
    this.#cut()
  }
}
