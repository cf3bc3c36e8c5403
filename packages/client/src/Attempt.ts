/** One attempt at a request: its time limits, its abort, and the resulting errors. */
import { SlipwayError } from "./SlipwayError.ts"

/** Longer timers would fire at once. */
const LONGEST_TIMER_MILLIS = 2 ** 31 - 1

/** One attempt at a request. The caller's signal, the time limit and the idle limit end it; `code` of the error says which did. */
export class Attempt {
  readonly #controller = new AbortController()
  readonly #caller: AbortSignal | undefined
  readonly #cut = () => this.#controller.abort()
  #isLate = false

  /** Throws the signal's reason if `caller` is already aborted. */
  constructor(caller: AbortSignal | undefined) {
    caller?.throwIfAborted()
    this.#caller = caller
    // Not `AbortSignal.any`, which Node has only since 20.3. A long-lived signal must not keep this object.
    caller?.addEventListener("abort", this.#cut, { once: true })
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** The result of `work`. Fails with `timeout` after the limit, and with `unreachable` if the network fails. */
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

  /** The body in pieces, on demand. The reader may take its time; the service has `idleMillis` for each piece. */
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

  /** Closes the connection, unless the reply is complete. */
  close(): void {
    this.#caller?.removeEventListener("abort", this.#cut)
    this.#cut()
  }
}
