/** The frames of a terminal in a channel, and an attachment over them. */
import { assert, describe, it } from "@effect/vitest"
import { type ByteConnection, ConnectionBroken } from "@slipway/domain/sandbox/ports/BoxConnection"
import type { TerminalAttachment, TerminalOutput, TerminalSize } from "@slipway/domain/sandbox/ports/Terminals"
import { type Cause, Deferred, Effect, Exit, Fiber, Queue, Schema, Scope, Stream } from "effect"
import * as TerminalChannel from "../src/channel/TerminalChannel.ts"
import * as TerminalFrames from "../src/channel/TerminalFrames.ts"

const MAX_CONTENT = 2 ** 20

const Sent = Schema.Array(Schema.Union([Schema.Uint8Array, TerminalFrames.Told]))
const written = (sent: typeof Sent.Type) =>
  Buffer.concat(sent.map((one) => one instanceof Uint8Array ? TerminalFrames.bytes(one) : TerminalFrames.message(one)))

/** Reads bytes that come in these pieces. */
const read = (pieces: ReadonlyArray<Uint8Array>) =>
  Stream.runCollect(TerminalFrames.read(TerminalFrames.Told)(Stream.fromIterable(pieces))).pipe(
    Effect.map((frames) => frames.map((frame) => frame._tag === "Bytes" ? Buffer.from(frame.bytes).toString("hex") : frame.message))
  )
const shown = (sent: typeof Sent.Type) => sent.map((one) => one instanceof Uint8Array ? Buffer.from(one).toString("hex") : one)

const head = (kind: number, length: number) => {
  const bytes = Buffer.alloc(5, kind)
  bytes.writeUInt32BE(length, 1)
  return bytes
}

describe("frames", () => {
  it.effect.prop(
    "come out as they went in, however their bytes are split",
    [Sent, Schema.Array(Schema.Natural)],
    ([sent, cuts]) =>
      Effect.gen(function*() {
        const all = written(sent)
        const at = [0, ...cuts.map((cut) => cut % (all.length + 1)).toSorted((a, b) => a - b), all.length]
        const pieces = at.slice(1).map((end, i) => all.subarray(at[i], end))
        // As JSON: it has no -0.
        assert.strictEqual(JSON.stringify(yield* read(pieces)), JSON.stringify(shown(sent)))
      })
  )

  it.effect("come out the same if they are split at any one byte", () =>
    Effect.gen(function*() {
      const sent: typeof Sent.Type = [
        { type: "attached", terminal: 2 },
        Buffer.from("é\u001b[0m"),
        new Uint8Array(),
        { type: "skipped", count: 7 },
        { type: "ended", reason: "exited", code: 3 }
      ]
      const all = written(sent)
      for (let at = 0; at <= all.length; at++) assert.deepStrictEqual(yield* read([all.subarray(0, at), all.subarray(at)]), shown(sent))
      assert.deepStrictEqual(yield* read(Array.from(all, (byte) => Uint8Array.of(byte))), shown(sent))
    }))

  it.effect("may be as long as the longest content, and are refused by their head if they are longer or of no kind", () =>
    Effect.gen(function*() {
      const long = Buffer.alloc(MAX_CONTENT, 1)
      assert.deepStrictEqual(yield* read([TerminalFrames.bytes(long)]), [long.toString("hex")])
      for (const refused of [head(0, MAX_CONTENT + 1), head(1, 2 ** 32 - 1), head(2, 0), head(255, 3)]) {
        const received = Stream.concat(Stream.make(refused), Stream.never)
        const error = yield* Effect.flip(Stream.runDrain(TerminalFrames.read(TerminalFrames.Told)(received)))
        assert.instanceOf(error, ConnectionBroken)
      }
    }))

  it.effect("of JSON are refused unless they are a message of the other side", () =>
    Effect.gen(function*() {
      const refused = [
        "",
        "{",
        "null",
        "{}",
        `{"type":"resize","size":{"columns":80,"rows":24}}`,
        `{"type":"attached"}`,
        `{"type":"ended","reason":"bored","code":null}`
      ]
      for (const text of refused) {
        const frame = Buffer.concat([head(1, text.length), Buffer.from(text)])
        assert.instanceOf(yield* Effect.flip(read([frame])), ConnectionBroken, text)
      }
      const size = `{"type":"resize","size":{"columns":0,"rows":24}}`
      const asked = TerminalFrames.read(TerminalFrames.Asked)(Stream.make(Buffer.concat([head(1, size.length), Buffer.from(size)])))
      assert.instanceOf(yield* Effect.flip(Stream.runDrain(asked)), ConnectionBroken)
    }))

  it.effect("that break off are no frames, and the stream fails", () =>
    Effect.gen(function*() {
      const all = written([{ type: "attached", terminal: 1 }, Buffer.from("bytes")])
      for (const length of [1, 4, 5, 20, all.length - 1]) {
        assert.instanceOf(yield* Effect.flip(read([all.subarray(0, length)])), ConnectionBroken, String(length))
      }
      assert.lengthOf(yield* read([all]), 2)
    }))
})

/** A terminal that the test plays. */
const played = Effect.gen(function*() {
  const output = yield* Queue.unbounded<TerminalOutput, Cause.Done>()
  const keys: Array<string> = []
  const sizes: Array<TerminalSize> = []
  const ended = yield* Deferred.make<void>()
  const attachment: TerminalAttachment = {
    terminal: 3,
    output: Stream.fromQueue(output),
    write: (bytes) => Effect.sync(() => void keys.push(Buffer.from(bytes).toString())),
    resize: (size) => Effect.sync(() => void sizes.push(size)),
    end: Effect.asVoid(Deferred.succeed(ended, undefined))
  }
  return { attachment, output, keys, sizes, ended: Deferred.await(ended) }
})

/** The side of the process that answers requests, of a connection whose bytes come in these pieces. */
const reached = (received: ByteConnection["received"]) =>
  TerminalChannel.attachmentOf({ received, send: () => Effect.void, endInput: Effect.void })
const attached = TerminalFrames.message({ type: "attached", terminal: 1 })

describe("an attachment over a channel", () => {
  it.effect("passes output, keys, sizes and the end", () =>
    Effect.gen(function*() {
      const terminal = yield* played
      const far = yield* TerminalChannel.attachmentOf(yield* TerminalChannel.connectionOf(terminal.attachment))
      assert.strictEqual(far.terminal, 3)
      yield* far.write(Buffer.from("ls\r"))
      yield* far.resize({ columns: 132, rows: 40 })
      yield* far.end
      // The last one is carried out after it was taken.
      yield* terminal.ended
      assert.deepStrictEqual([terminal.keys, terminal.sizes], [["ls\r"], [{ columns: 132, rows: 40 }]])
      const outputs: ReadonlyArray<TerminalOutput> = [
        { _tag: "Bytes", bytes: Buffer.from("a file") },
        { _tag: "Skipped", count: 9 },
        { _tag: "Ended", reason: "moved", code: null }
      ]
      yield* Queue.offerAll(terminal.output, outputs)
      yield* Queue.end(terminal.output)
      const seen = yield* Stream.runCollect(far.output)
      assert.deepStrictEqual(
        seen.map((one) => one._tag === "Bytes" ? Buffer.from(one.bytes).toString() : one),
        ["a file", ...outputs.slice(1)]
      )
    }).pipe(Effect.scoped))

  it.effect("is lost when the connection ends or breaks before the terminal does", () =>
    Effect.gen(function*() {
      const LOST: TerminalOutput = { _tag: "Ended", reason: "lost", code: null }
      for (
        const received of [
          Stream.make(attached),
          Stream.make(attached, Uint8Array.of(0, 0, 0)),
          Stream.concat(Stream.make(attached), Stream.fail(new ConnectionBroken())),
          Stream.make(attached, head(7, 1))
        ]
      ) assert.deepStrictEqual(yield* Effect.flatMap(reached(received), ({ output }) => Stream.runCollect(output)), [LOST])
    }).pipe(Effect.scoped))

  it.effect("is unreachable if the first frame does not name the terminal", () =>
    Effect.gen(function*() {
      for (const first of [TerminalFrames.bytes(Buffer.from("bytes")), TerminalFrames.message({ type: "skipped", count: 1 }), head(9, 0)]) {
        assert.strictEqual((yield* Effect.flip(reached(Stream.make(first)))).reason, "unreachable")
      }
      assert.strictEqual((yield* Effect.flip(reached(Stream.empty))).reason, "unreachable")
    }).pipe(Effect.scoped))

  it.effect("breaks for a peer that sends an invalid frame, also for what it sent meanwhile", () =>
    Effect.gen(function*() {
      const terminal = yield* played
      const scope = yield* Scope.make()
      const connection = yield* Scope.provide(TerminalChannel.connectionOf(terminal.attachment), scope)
      const sending = yield* Effect.forkScoped(
        Effect.forever(
          Effect.suspend(() => connection.send(terminal.keys.length < 3 ? TerminalFrames.bytes(Buffer.from("k")) : head(9, 0)))
        )
      )
      assert.instanceOf(yield* Effect.flip(Fiber.join(sending)), ConnectionBroken)
      assert.instanceOf(yield* Effect.flip(connection.send(TerminalFrames.bytes(Buffer.from("late")))), ConnectionBroken)
      assert.isAtLeast(terminal.keys.length, 3)
      yield* Scope.close(scope, Exit.void)
    }).pipe(Effect.scoped), 20_000)
})
