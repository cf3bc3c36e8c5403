/** An attachment to a terminal as a `ByteConnection`, and back. */
import { type ByteConnection, ConnectionBroken } from "@slipway/domain/sandbox/ports/BoxConnection"
import type { TerminalAttachment, TerminalOutput } from "@slipway/domain/sandbox/ports/Terminals"
import { unreachable } from "@slipway/domain/sandbox/ports/Terminals"
import { Effect, Fiber, Queue, Semaphore, Stream } from "effect"
import * as TerminalFrames from "./TerminalFrames.ts"

const frameOf = (output: TerminalOutput): Uint8Array => {
  switch (output._tag) {
    case "Bytes":
      return TerminalFrames.bytes(output.bytes)
    case "Skipped":
      return TerminalFrames.message({ type: "skipped", count: output.count })
    case "Ended":
      return TerminalFrames.message({ type: "ended", reason: output.reason, code: output.code })
  }
}

/** The worker's side: what the other process receives and sends. */
export const connectionOf = Effect.fnUntraced(function*(attachment: TerminalAttachment) {
  const sent = yield* Queue.bounded<Uint8Array>(1)
  const carryOut = TerminalFrames.read(TerminalFrames.Asked)(Stream.fromQueue(sent)).pipe(
    Stream.runForEach((frame) =>
      frame._tag === "Bytes"
        ? attachment.write(frame.bytes)
        : frame.message.type === "resize"
        ? attachment.resize(frame.message.size)
        : attachment.end
    )
  )
  const broken = yield* Effect.forkScoped(Effect.flip(carryOut))
  const connection: ByteConnection = {
    received: Stream.make(TerminalFrames.message({ type: "attached", terminal: attachment.terminal })).pipe(
      Stream.concat(Stream.map(attachment.output, frameOf))
    ),
    // An invalid frame ends the reader of the queue.
    send: (bytes) =>
      Effect.raceFirst(
        Effect.asVoid(Queue.offer(sent, bytes)),
        Effect.andThen(Fiber.await(broken), new ConnectionBroken())
      ),
    endInput: Effect.void
  }
  return connection
})

const LOST = { _tag: "Ended", reason: "lost", code: null } as const satisfies TerminalOutput

/** The side of the process that answers requests. The stream of frames is read once: its first frame names the terminal. */
export const attachmentOf = Effect.fnUntraced(function*(connection: ByteConnection) {
  const sending = yield* Semaphore.make(1)
  const send = (bytes: Uint8Array) => Effect.ignore(sending.withPermits(1)(connection.send(bytes)))
  const frames = TerminalFrames.read(TerminalFrames.Told)(connection.received)
  const pull = yield* Stream.toPull(frames)
  const waiting: Array<TerminalFrames.Frame<typeof TerminalFrames.Told.Type>> = []
  const next = Effect.gen(function*() {
    if (waiting.length === 0) waiting.push(...yield* pull)
    return waiting.shift()
  })
  const first = yield* Effect.mapError(next, unreachable)
  if (first?._tag !== "Message" || first.message.type !== "attached") return yield* unreachable()
  const { terminal } = first.message

  let isOver = false
  const outputOf = (frame: TerminalFrames.Frame<typeof TerminalFrames.Told.Type> | undefined): TerminalOutput => {
    if (frame?._tag === "Bytes") return frame
    if (frame?.message.type === "skipped") return { _tag: "Skipped", count: frame.message.count }
    isOver = true
    return frame?.message.type === "ended" ? { _tag: "Ended", reason: frame.message.reason, code: frame.message.code } : LOST
  }
  const output = Stream.unfold(undefined, () =>
    Effect.suspend(() =>
      isOver ? Effect.undefined : Effect.map(
        // A connection that ends without the last frame was lost.
        Effect.catch(next, () => Effect.undefined),
        (frame) => [outputOf(frame), undefined] as const
      )
    ))
  return {
    terminal,
    output,
    write: (bytes) => send(TerminalFrames.bytes(bytes)),
    resize: (size) => send(TerminalFrames.message({ type: "resize", size })),
    end: send(TerminalFrames.message({ type: "end" }))
  } satisfies TerminalAttachment
})
