/** One JSON value per line over a process's standard input and output: the transport all agent dialects share. */
import type { BoxProcess } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as RateLimiter from "@slipway/domain/time/RateLimiter"
import { Cause, Effect, Option, Queue, Schema, type Scope, Semaphore, Stream } from "effect"

/**
 * Beyond this no agent we know sends anything: the largest is an image as base64, 6.7 MB of it. A longer line is an agent
 * gone wrong, not a message.
 */
const MAX_LINE_BYTES = 8 * 1024 * 1024
/** Values in one line, strings aside as large as they like: reading millions of small ones would stop the service for a second. */
const MAX_LINE_VALUES = 50_000

/** Lines read ahead of the one being handled. The agent waits once these, or a line's greatest bytes, and the pipe are full. */
const READ_AHEAD = 16

/** Lines and bytes an agent may write in a second before it has to wait. Models stream 300 words a second at most. */
const LINES_PER_SECOND = 1000
const BYTES_PER_SECOND = 8 * 1024 * 1024

/** How long output may go on after the process ended: something it started may hold the pipe open for ever. */
const DRAIN = "1 second"

/** An id of the agent's own. With a longer one a frame is none of its protocol: ids are kept as long as what they name. */
export const NativeId = Schema.String.check(Schema.isMaxLength(1000))

/** The output cannot be read any further. */
export class OutputEnded extends Schema.TaggedError<OutputEnded>()("OutputEnded", {
  reason: Schema.Literals(["end of output", "line too long"])
}) {}

export interface JsonLines {
  send(value: object): Effect.Effect<void>
  /** The next value from the process. Fails the same way for ever once there is none. */
  readonly receive: Effect.Effect<unknown, OutputEnded>
}

const NEWLINE = 10

/** The beginning of a line whose end is still to come. Its memory doubles, so that tiny chunks cost no more than large ones. */
class OpenLine {
  #bytes = Buffer.alloc(0)
  #length = 0
  #values = 0
  #inString = false
  #escaped = false

  /** Whether it has more bytes or values than are read. */
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

  /** The whole line. Its bytes are decoded together, so that no character is torn apart by a chunk's end. */
  take(): Buffer {
    const line = this.#bytes.subarray(0, this.#length)
    this.#bytes = Buffer.alloc(0)
    this.#length = this.#values = 0
    this.#inString = this.#escaped = false
    return line
  }

  /** As it comes: counted at its end, a long line would keep others waiting. */
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

/** Reading goes on until the scope closes. */
export const make = (process: BoxProcess): Effect.Effect<JsonLines, never, Scope.Scope> =>
  Effect.gen(function*() {
    const values = yield* Queue.bounded<{ readonly value: unknown; readonly bytes: number }, OutputEnded | Cause.Done>(READ_AHEAD)
    const ahead = yield* Semaphore.make(MAX_LINE_BYTES)
    const pace = { lines: RateLimiter.make(LINES_PER_SECOND), bytes: RateLimiter.make(BYTES_PER_SECOND) }
    yield* lines(process.stdout).pipe(
      Stream.interruptWhen(Effect.andThen(process.exited, Effect.sleep(DRAIN))),
      Stream.tap((line) => Effect.all([pace.lines(1), pace.bytes(line.length), ahead.take(line.length)])),
      // A stray line that is no JSON is somebody's log, not a broken protocol.
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
    // Ended, not shut down: whoever still waits learns that there is no more, instead of being interrupted.
    yield* Effect.addFinalizer(() => Queue.end(values))
    return {
      send: (value) => process.write(`${JSON.stringify(value)}\n`),
      receive: Queue.take(values).pipe(
        Effect.flatMap(({ bytes, value }) => Effect.as(ahead.release(bytes), value)),
        Effect.catchIf(Cause.isDone, () => Effect.fail(new OutputEnded({ reason: "end of output" })))
      )
    }
  })
