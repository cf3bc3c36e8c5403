/** One JSON value per line over a process's standard input and output, the transport of all agent dialects. */
import type { BoxProcess } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as RateLimiter from "@slipway/domain/time/RateLimiter"
import { Cause, Effect, Option, Queue, Schema, type Scope, Semaphore, Stream } from "effect"

/** No known agent sends longer lines: the largest is an image as base64, 6.7 MB. A longer line is an error of the agent. */
const MAX_LINE_BYTES = 8 * 1024 * 1024
/** Values in one line. Reading millions of small values would block the service for a second. */
const MAX_LINE_VALUES = 50_000

/** Lines read ahead. When these, or the bytes of the largest line, and the pipe are full, the agent waits. */
const READ_AHEAD = 16

/** Lines and bytes an agent may write in a second before it has to wait. Models stream 300 words a second at most. */
const LINES_PER_SECOND = 1000
const BYTES_PER_SECOND = 8 * 1024 * 1024

/** How long the output may continue after the process ended. A child process may keep the pipe open forever. */
const DRAIN = "1 second"

/** An id of the agent. Frames with longer ids are invalid, because ids are kept as long as their objects. */
export const NativeId = Schema.String.check(Schema.isMaxLength(1000))

/** The output cannot be read any more. */
export class OutputEnded extends Schema.TaggedError<OutputEnded>()("OutputEnded", {
  reason: Schema.Literals(["end of output", "line too long"])
}) {}

export interface JsonLines {
  send(value: object): Effect.Effect<void>
  /** The next value from the process. After the end it always fails with the same error. */
  readonly receive: Effect.Effect<unknown, OutputEnded>
}

const NEWLINE = 10

/** The beginning of an unfinished line. Its memory doubles, so that small chunks cost no more than large ones. */
class OpenLine {
  #bytes = Buffer.alloc(0)
  #length = 0
  #values = 0
  #inString = false
  #escaped = false

  /** Whether it exceeds a limit of bytes or values. */
  get hasTooMuch(): boolean {
    return this.#length > MAX_LINE_BYTES || this.#values > MAX_LINE_VALUES
  }

  add(chunk: Uint8Array) {
    const length = this.#length + chunk.length
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(2 * this.#bytes.length, length))
      this.#bytes.copy(larger, 0, 0, this.#length)
      this.#bytes = larger
    }
    this.#bytes.set(chunk, this.#length)
    this.#length = length
    this.#count(chunk)
  }

  /** The complete line. Its bytes are decoded together, so that chunks do not split characters. */
  take(): Buffer {
    const line = this.#bytes.subarray(0, this.#length)
    this.#bytes = Buffer.alloc(0)
    this.#length = this.#values = 0
    this.#inString = this.#escaped = false
    return line
  }

  /** Counts each chunk, because counting a long line at its end would block other work. */
  #count(chunk: Uint8Array) {
    let [values, inString, escaped] = [this.#values, this.#inString, this.#escaped]
    for (let i = 0; i < chunk.length; i++) {
      const byte = chunk[i]
      if (escaped) escaped = false
      else if (byte === QUOTE) inString = !inString
      else if (!inString) values += byte === COMMA || byte === BRACKET || byte === BRACE ? 1 : 0
      else if (byte === BACKSLASH) escaped = true
    }
    this.#values = values
    this.#inString = inString
    this.#escaped = escaped
  }
}

const [QUOTE, BACKSLASH, COMMA, BRACKET, BRACE] = Buffer.from("\"\\,[{")

/** Splits at line feeds. */
const lines = (chunks: Stream.Stream<Uint8Array>): Stream.Stream<Buffer, OutputEnded> =>
  Stream.suspend(() => {
    const open = new OpenLine()
    return chunks.pipe(
      Stream.mapEffect((chunk) => {
        const complete: Array<Buffer> = []
        let start = 0
        for (let end; (end = chunk.indexOf(NEWLINE, start)) >= 0; start = end + 1) {
          open.add(chunk.subarray(start, end))
          if (open.hasTooMuch) break
          complete.push(open.take())
        }
        if (start < chunk.length && !open.hasTooMuch) open.add(chunk.subarray(start))
        return open.hasTooMuch ? Effect.fail(new OutputEnded({ reason: "line too long" })) : Effect.succeed(complete)
      }),
      Stream.flattenIterable
    )
  })

const parse = Option.liftThrowable((line: Buffer): unknown => JSON.parse(line.toString("utf8")))

/** Reads until the scope closes. */
export const make = (process: BoxProcess): Effect.Effect<JsonLines, never, Scope.Scope> =>
  Effect.gen(function*() {
    const values = yield* Queue.bounded<{ readonly value: unknown; readonly bytes: number }, OutputEnded | Cause.Done>(READ_AHEAD)
    const ahead = yield* Semaphore.make(MAX_LINE_BYTES)
    const pace = { lines: RateLimiter.make(LINES_PER_SECOND), bytes: RateLimiter.make(BYTES_PER_SECOND) }
    yield* lines(process.stdout).pipe(
      Stream.interruptWhen(Effect.andThen(process.exited, Effect.sleep(DRAIN))),
      Stream.tap((line) => Effect.all([pace.lines(1), pace.bytes(line.length), ahead.take(line.length)])),
      // A line that is not JSON is log output, not a protocol error.
      Stream.mapEffect((line) => {
        const parsed = parse(line)
        return Option.isSome(parsed)
          ? Effect.succeed([{ value: parsed.value, bytes: line.length }])
          : Effect.as(ahead.release(line.length), [])
      }),
      Stream.flattenIterable,
      Stream.runIntoQueue(values),
      Effect.forkScoped
    )
    // Ends the queue instead of shutting it down, so that waiting readers get the end and no interruption.
    yield* Effect.addFinalizer(() => Queue.end(values))
    return {
      send: (value) => process.write(`${JSON.stringify(value)}\n`),
      receive: Queue.take(values).pipe(
        Effect.flatMap(({ bytes, value }) => Effect.as(ahead.release(bytes), value)),
        Effect.catchIf(Cause.isDone, () => Effect.fail(new OutputEnded({ reason: "end of output" })))
      )
    }
  })
