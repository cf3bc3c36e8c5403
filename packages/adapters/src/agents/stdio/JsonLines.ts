/** One JSON value per line over a process's standard input and output: the transport all agent dialects share. */
import { Cause, Effect, Option, Queue, Schema, type Scope, Stream } from "effect"
import type { BoxProcess } from "@slipway/domain/sandbox/SandboxHost"

/** Beyond this no agent we know sends anything; a longer line is an agent gone wrong, not a message. */
const MAX_LINE_BYTES = 16 * 1024 * 1024

/** Lines read ahead of the one being handled. The agent waits once these and the pipe are full. */
const READ_AHEAD = 16

/** How long output may go on after the process ended: something it started may hold the pipe open for ever. */
const DRAIN = "1 second"

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

/** Splits at line feeds. Bytes of a line are decoded together, so that no character is torn apart by a chunk's end. */
const lines = (chunks: Stream.Stream<Uint8Array>): Stream.Stream<string, OutputEnded> =>
  chunks.pipe(
    Stream.mapAccumEffect(
      (): ReadonlyArray<Uint8Array> => [],
      (open, chunk) => {
        const complete: Array<string> = []
        let start = 0
        for (let end; (end = chunk.indexOf(NEWLINE, start)) >= 0; start = end + 1) {
          complete.push(Buffer.concat([...open, chunk.subarray(start, end)]).toString("utf8"))
          open = []
        }
        if (start < chunk.length) open = [...open, chunk.subarray(start)]
        return open.reduce((bytes, part) => bytes + part.length, 0) > MAX_LINE_BYTES
          ? Effect.fail(new OutputEnded({ reason: "line too long" }))
          : Effect.succeed([open, complete] as const)
      }
    )
  )

const parse = Option.liftThrowable((line: string): unknown => JSON.parse(line))

/** Reading goes on until the scope closes. */
export const make = (process: BoxProcess): Effect.Effect<JsonLines, never, Scope.Scope> =>
  Effect.gen(function*() {
    const values = yield* Queue.bounded<unknown, OutputEnded | Cause.Done>(READ_AHEAD)
    yield* lines(process.stdout).pipe(
      Stream.interruptWhen(Effect.andThen(process.exited, Effect.sleep(DRAIN))),
      // A stray line that is no JSON is somebody's log, not a broken protocol.
      Stream.map(parse),
      Stream.filter(Option.isSome),
      Stream.map(({ value }) => value),
      Stream.runIntoQueue(values),
      Effect.forkScoped
    )
    // Ended, not shut down: whoever still waits learns that there is no more, instead of being interrupted.
    yield* Effect.addFinalizer(() => Queue.end(values))
    return {
      send: (value) => process.write(`${JSON.stringify(value)}\n`),
      receive: Queue.take(values).pipe(
        Effect.catchIf(Cause.isDone, () => Effect.fail(new OutputEnded({ reason: "end of output" })))
      )
    }
  })
