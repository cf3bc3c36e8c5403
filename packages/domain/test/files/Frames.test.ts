import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema, Stream } from "effect"
import * as Frames from "../../src/files/rules/Frames.ts"

const MAGIC = new TextEncoder().encode("test 1\n")
const headerIn = Frames.jsonIn(Schema.Struct({ frames: Schema.Int }), "It has no header.")
const framed = (content: Uint8Array) => Frames.joined([Frames.numberOf(content.length, 4), content])
const text = (value: string) => new TextEncoder().encode(value)

/** Frames of at most 100 bytes, as many as the header says. */
function* format(): Frames.Format<Uint8Array> {
  function* frame() {
    const length = Frames.numberIn(yield* Frames.bytes(4))
    if (length > 100) throw new Frames.FrameError({ reason: "too_large", detail: "A frame is too large." })
    return yield* Frames.bytes(length)
  }
  yield* Frames.magic(MAGIC, "It is something else.")
  const { frames } = headerIn(yield* frame())
  for (let i = 0; i < frames; i++) yield* Frames.give(yield* frame())
}

const VALUES = ["one", "", "2", "three", ""]
const archive = Frames.joined([MAGIC, framed(text("{\"frames\":5}")), ...VALUES.map((value) => framed(text(value)))])

const readAll = (bytes: Uint8Array, size: number, options?: Frames.Options) => {
  const reader = new Frames.Reader(format(), options)
  const found = Frames.split(bytes, size).flatMap((piece) => Array.from(reader.take(piece), (value) => new TextDecoder().decode(value)))
  reader.finish()
  return found
}

/** The reason and the sentence of the error. */
const refusalOf = (run: () => unknown) => {
  try {
    run()
  } catch (error) {
    if (error instanceof Frames.FrameError) return [error.reason, error.message]
    throw error
  }
  return undefined
}
const CUT = ["cut", "It is cut."]

describe("frames", () => {
  it("are the same in pieces of any size", () => {
    for (let size = 1; size <= archive.length; size++) assert.deepStrictEqual(readAll(archive, size), VALUES)
  })

  it("are refused where they are cut, longer than they may be, of another format, or followed by more bytes", () => {
    for (let length = 0; length < archive.length; length++) {
      assert.deepStrictEqual(refusalOf(() => readAll(archive.subarray(0, length), 5)), CUT, `${length}`)
    }
    assert.deepStrictEqual(refusalOf(() => readAll(archive, 5, { maximumBytes: archive.length - 1 })), [
      "too_large",
      "It is larger than it may be."
    ])
    assert.deepStrictEqual(readAll(archive, 5, { maximumBytes: archive.length }), VALUES)
    assert.deepStrictEqual(refusalOf(() => readAll(text("test 2\n"), 5)), ["not_ours", "It is something else."])
    assert.deepStrictEqual(refusalOf(() => readAll(Frames.joined([MAGIC, framed(text("{}"))]), 5)), ["not_ours", "It has no header."])
    assert.deepStrictEqual(refusalOf(() => readAll(Frames.joined([archive, text("x")]), 5)), ["changed", "It goes on after its end."])
  })

  it("of a forged length are refused before their bytes come, and at each later call", () => {
    const reader = new Frames.Reader(format())
    const take = (bytes: Uint8Array) => refusalOf(() => Array.from(reader.take(bytes)))
    const refused = ["too_large", "A frame is too large."]
    assert.deepStrictEqual(take(Frames.joined([MAGIC, Uint8Array.of(255, 255, 255, 255)])), refused)
    assert.deepStrictEqual(take(text("more")), refused)
    assert.deepStrictEqual(refusalOf(() => reader.finish()), refused)
  })

  it("are all read before the end", () => {
    const reader = new Frames.Reader(format())
    assert.deepStrictEqual(reader.take(archive).next().value, text("one"))
    assert.deepStrictEqual(refusalOf(() => reader.finish()), ["cut", "Values are left unread."])
  })

  it("without a fixed length are what has come, never empty, and no copy of it", () => {
    const reader = new Frames.Reader(function*(): Frames.Format<Uint8Array> {
      for (;;) yield* Frames.give(yield* Frames.some(3))
    }())
    for (const [piece, values] of [["abcd", ["abc", "d"]], ["", []], ["e", ["e"]]] as const) {
      assert.deepStrictEqual([...reader.take(text(piece))], values.map(text), piece)
    }
    const piece = text("fghi")
    for (const { buffer } of reader.take(piece)) assert.strictEqual(buffer, piece.buffer)
    assert.deepStrictEqual(refusalOf(() => reader.finish()), CUT)
  })

  it.effect("of a stream are read when they are asked for, and its error is passed on", () =>
    Effect.gen(function*() {
      let pulled = 0
      const pieces = Stream.fromIterable(Frames.split(archive, 1)).pipe(Stream.rechunk(1), Stream.tap(() => Effect.sync(() => pulled++)))
      const next = yield* Frames.reader(pieces, format(), { onError: ({ reason }) => reason })
      assert.deepStrictEqual(yield* next, text("one"))
      assert.isBelow(pulled, archive.length)
      for (const value of VALUES.slice(1)) assert.deepStrictEqual(yield* next, text(value))
      assert.isUndefined(yield* next)
      const broken = yield* Frames.reader(Stream.concat(Stream.make(MAGIC), Stream.fail("away")), format(), { onError: () => "cut" })
      assert.strictEqual(yield* Effect.flip(broken), "away")
      const cut = yield* Frames.reader(Stream.make(MAGIC), format(), { onError: ({ reason }) => reason })
      assert.strictEqual(yield* Effect.flip(cut), "cut")
    }).pipe(Effect.scoped))

  it("write numbers with the highest byte first, exactly up to 2^53", () => {
    const bytes: ReadonlyArray<readonly [number, ReadonlyArray<number>]> = [
      [0, [0, 0]],
      [255, [255]],
      [256, [1, 0]],
      [0x01_02_03, [0, 1, 2, 3]],
      [2 ** 53 - 1, [31, 255, 255, 255, 255, 255, 255]]
    ]
    for (const [number, expected] of bytes) {
      assert.deepStrictEqual([...Frames.numberOf(number, expected.length)], expected)
      assert.strictEqual(Frames.numberIn(Uint8Array.from(expected)), number)
    }
  })

  it("split bytes into parts, and compare all of them", () => {
    assert.deepStrictEqual(Frames.split(text("abcde"), 2), ["ab", "cd", "e"].map(text))
    assert.deepStrictEqual(["ab", "ac", "a", "abc"].map((other) => Frames.isSame(text("ab"), text(other))), [true, false, false, false])
  })
})
