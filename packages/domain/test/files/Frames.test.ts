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

const archive = Frames.joined([MAGIC, framed(text("{\"frames\":3}")), framed(text("one")), framed(text("")), framed(text("three"))])

const readAll = (bytes: Uint8Array, size: number, options?: Frames.Options) => {
  const reader = new Frames.Reader(format(), options)
  const found = Frames.split(bytes, size).flatMap((piece) => Array.from(reader.take(piece), (value) => new TextDecoder().decode(value)))
  reader.finish()
  return found
}

const reasonOf = (run: () => unknown) => {
  try {
    run()
  } catch (error) {
    if (error instanceof Frames.FrameError) return error.reason
    throw error
  }
  return undefined
}

describe("frames", () => {
  it("are the same in pieces of any size", () => {
    for (let size = 1; size <= archive.length; size++) assert.deepStrictEqual(readAll(archive, size), ["one", "", "three"])
  })

  it("are refused where they are cut, longer than they may be, of another format, or followed by more bytes", () => {
    for (let length = 0; length < archive.length; length++) {
      assert.strictEqual(reasonOf(() => readAll(archive.subarray(0, length), 5)), "cut", `${length}`)
    }
    assert.strictEqual(reasonOf(() => readAll(archive, 5, { maximumBytes: archive.length - 1 })), "too_large")
    assert.deepStrictEqual(readAll(archive, 5, { maximumBytes: archive.length }), ["one", "", "three"])
    assert.strictEqual(reasonOf(() => readAll(text("test 2\n"), 5)), "not_ours")
    assert.strictEqual(reasonOf(() => readAll(Frames.joined([MAGIC, framed(text("{}"))]), 5)), "not_ours")
    assert.strictEqual(reasonOf(() => readAll(Frames.joined([archive, text("x")]), 5)), "changed")
  })

  it("of a forged length are refused before their bytes come, and at each later call", () => {
    const reader = new Frames.Reader(format())
    const take = (bytes: Uint8Array) => reasonOf(() => Array.from(reader.take(bytes)))
    assert.strictEqual(take(Frames.joined([MAGIC, Uint8Array.of(255, 255, 255, 255)])), "too_large")
    assert.strictEqual(take(text("more")), "too_large")
    assert.strictEqual(reasonOf(() => reader.finish()), "too_large")
  })

  it.effect("of a stream are read when they are asked for, and its error is passed on", () =>
    Effect.gen(function*() {
      let pulled = 0
      const pieces = Stream.fromIterable(Frames.split(archive, 1)).pipe(Stream.rechunk(1), Stream.tap(() => Effect.sync(() => pulled++)))
      const next = yield* Frames.reader(pieces, format(), { onError: ({ reason }) => reason })
      assert.deepStrictEqual(yield* next, text("one"))
      assert.isBelow(pulled, archive.length)
      assert.deepStrictEqual([yield* next, yield* next, yield* next], [text(""), text("three"), undefined])
      const broken = yield* Frames.reader(Stream.concat(Stream.make(MAGIC), Stream.fail("away")), format(), { onError: () => "cut" })
      assert.strictEqual(yield* Effect.flip(broken), "away")
      const cut = yield* Frames.reader(Stream.make(MAGIC), format(), { onError: ({ reason }) => reason })
      assert.strictEqual(yield* Effect.flip(cut), "cut")
    }).pipe(Effect.scoped))
})
