/**
 * The rules that every `Blobs` must keep. An adapter proves itself by running this suite against its layer; a rule that is missing here is
 * not part of the port. Fresh grants make it repeatable in one place.
 */
import { type BlobKey, Blobs, MAX_BLOB_BYTES } from "@slipway/domain/files/ports/Blobs"
import { sha256 } from "@slipway/domain/ids/Digest"
import { Ids } from "@slipway/domain/ids/Ids"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { assert } from "../../suite/Assert.ts"
import { defineLive, type Writer } from "../../suite/Suite.ts"

const MEBIBYTE = 2 ** 20
/** SHA-256 of {@link MAX_BLOB_BYTES} zeros. */
const LARGEST = "83ee47245398adee79bd9c0a8bc57b821e92aba10f5f9ade8a5d1fae4d8c4302"

const utf8 = new TextEncoder()
const bytesOf = (content: string | Uint8Array) => typeof content === "string" ? utf8.encode(content) : content

/** Bytes of which no two pieces are equal. */
const noise = (size: number) => {
  const words = new Uint32Array(Math.ceil(size / 4))
  for (let i = 0; i < words.length; i++) words[i] = Math.imul(i + 1, 2_654_435_761)
  return new Uint8Array(words.buffer, 0, size)
}

export const keyOf = (content: string | Uint8Array, grantId: string, holder = "file_1"): BlobKey => {
  const bytes = bytesOf(content)
  return { grantId, holder, sha256: sha256(bytes), size: bytes.length }
}
const grant = Effect.flatMap(Ids, (ids) => ids.uuid7)
const fresh = (content: string | Uint8Array, holder?: string) => Effect.map(grant, (grantId) => keyOf(content, grantId, holder))

export const putBytes = (key: BlobKey, content: string | Uint8Array) => Blobs.use((blobs) => blobs.put(key, Stream.make(bytesOf(content))))
const put = <E>(key: BlobKey, content: Stream.Stream<Uint8Array, E>) => Blobs.use((blobs) => blobs.put(key, content))
const remove = (key: BlobKey) => Blobs.use((blobs) => blobs.remove(key))
const joined = (chunks: ReadonlyArray<Uint8Array>) => {
  const all = new Uint8Array(chunks.reduce((size, { length }) => size + length, 0))
  let at = 0
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.length
  }
  return all
}
/** All bytes of a blob. */
export const read = (key: BlobKey) => Effect.map(Stream.runCollect(Stream.unwrap(Effect.map(Blobs, (blobs) => blobs.get(key)))), joined)
/** Compares bytes without a look at each of millions of numbers. */
const isSame = (found: Uint8Array, expected: Uint8Array) => {
  assert.strictEqual(found.length, expected.length)
  assert.strictEqual(sha256(found), sha256(expected))
}
const readText = (key: BlobKey) => Effect.map(read(key), (bytes) => new TextDecoder().decode(bytes))
const tagOf = <R>(refused: Effect.Effect<unknown, { readonly _tag: string }, R>) => Effect.map(Effect.flip(refused), ({ _tag }) => _tag)
/** Nothing can be read. */
export const isMissing = (key: BlobKey) => Effect.map(tagOf(read(key)), (tag) => assert.strictEqual(tag, "BlobNotFound"))

/** In parts of these sizes, again and again. */
const inParts = (bytes: Uint8Array, sizes: ReadonlyArray<number>): Stream.Stream<Uint8Array> => {
  const parts: Array<Uint8Array> = []
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? 1
    parts.push(bytes.subarray(at, at + size))
    at += size
  }
  return Stream.rechunk(Stream.fromIterable(parts), 1)
}

type Test = Writer<Blobs | Ids>

const contents = (it: Test) => {
  it.effect("gives back the bytes as they were put, in whatever parts they came", () =>
    Effect.gen(function*() {
      const bytes = noise(2 * MEBIBYTE + 77)
      for (const sizes of [[bytes.length], [1, 0, 65_536, 1_500_000, 7], [MEBIBYTE]]) {
        const key = yield* fresh(bytes)
        yield* put(key, inParts(bytes, sizes))
        isSame(yield* read(key), bytes)
      }
    }))

  it.effect("keeps a blob of one byte, and an empty one", () =>
    Effect.gen(function*() {
      for (const content of ["x", ""]) {
        const key = yield* fresh(content)
        yield* isMissing(key)
        yield* putBytes(key, content)
        assert.strictEqual(yield* readText(key), content)
      }
      const empty = yield* fresh("")
      yield* put(empty, Stream.empty)
      assert.strictEqual(yield* readText(empty), "")
    }))

  it.effect("changes nothing when a caller changes the bytes that it put or read", () =>
    Effect.gen(function*() {
      const key = yield* fresh("original")
      const bytes = utf8.encode("original")
      yield* put(key, Stream.make(bytes))
      bytes.fill(0)
      const found = yield* read(key)
      yield* Stream.runForEach(Stream.unwrap(Effect.map(Blobs, (blobs) => blobs.get(key))), (chunk) => Effect.sync(() => chunk.fill(0)))
      assert.strictEqual(new TextDecoder().decode(found), "original")
      assert.strictEqual(yield* readText(key), "original")
    }))

  it.effect("takes the largest blob, and refuses one byte more before it reads any", () =>
    Effect.gen(function*() {
      const key: BlobKey = { grantId: yield* grant, holder: "file_1", sha256: LARGEST, size: MAX_BLOB_BYTES }
      const zeros = new Uint8Array(MEBIBYTE)
      yield* put(key, Stream.map(Stream.rechunk(Stream.range(1, MAX_BLOB_BYTES / MEBIBYTE), 1), () => zeros))
      let size = 0
      yield* Stream.runForEach(Stream.unwrap(Effect.map(Blobs, (blobs) => blobs.get(key))), (chunk) =>
        Effect.sync(() => {
          size += chunk.length
        }))
      assert.strictEqual(size, MAX_BLOB_BYTES)
      yield* remove(key)
      const larger = { ...key, size: MAX_BLOB_BYTES + 1 }
      assert.strictEqual(yield* tagOf(put(larger, Stream.fromEffect(Effect.die("read")))), "BlobTooLarge")
    }), { timeout: 120_000 })
}

const refusals = (it: Test) => {
  it.effect("stores nothing if the content is not that of the key, and takes the right one afterwards", () =>
    Effect.gen(function*() {
      const key = yield* fresh("the content")
      const others = ["the c0ntent", "the conten", "the content ", "", "the contentthe content"]
      for (const other of others) {
        assert.strictEqual(yield* tagOf(putBytes(key, other)), "BlobMismatch", other)
        yield* isMissing(key)
      }
      yield* putBytes(key, "the content")
      assert.strictEqual(yield* readText(key), "the content")
    }))

  it.effect("stores nothing of a large blob whose last byte is wrong, or missing", () =>
    Effect.gen(function*() {
      const bytes = noise(2 * MEBIBYTE + 5)
      const key = yield* fresh(bytes)
      const wrong = bytes.slice()
      wrong[wrong.length - 1] = 1 + (wrong.at(-1) ?? 0)
      for (const other of [wrong, bytes.subarray(0, -1), bytes.subarray(0, MEBIBYTE)]) {
        assert.strictEqual(yield* tagOf(put(key, inParts(other, [MEBIBYTE, 3]))), "BlobMismatch")
        yield* isMissing(key)
      }
    }))

  it.effect("stops reading content that has too many bytes", () =>
    Effect.gen(function*() {
      const key = yield* fresh("short")
      const endless = Stream.map(Stream.rechunk(Stream.iterate(0, (n) => n + 1), 1), () => new Uint8Array(1000))
      assert.strictEqual(yield* tagOf(put(key, endless)), "BlobMismatch")
      yield* isMissing(key)
    }))

  it.effect("tells a failure of the content, and stores nothing of it", () =>
    Effect.gen(function*() {
      const bytes = noise(2 * MEBIBYTE)
      const key = yield* fresh(bytes)
      for (const part of [0, 10, MEBIBYTE, MEBIBYTE + 10]) {
        const broken = Stream.concat(inParts(bytes.subarray(0, part), [MEBIBYTE, 7]), Stream.fail("cut" as const))
        assert.strictEqual(yield* Effect.flip(put(key, broken)), "cut")
        yield* isMissing(key)
      }
      yield* remove(key)
      yield* putBytes(key, bytes)
      assert.strictEqual((yield* read(key)).length, bytes.length)
    }))

  it.effect("stores nothing of a put that is interrupted", () =>
    Effect.gen(function*() {
      const bytes = noise(MEBIBYTE + 10)
      const key = yield* fresh(bytes)
      const begun = yield* Deferred.make<void>()
      const hanging = Stream.concat(
        inParts(bytes.subarray(0, MEBIBYTE + 5), [MEBIBYTE, 5]),
        Stream.fromEffect(Effect.andThen(Deferred.succeed(begun, undefined), Effect.never))
      )
      const fiber = yield* Effect.forkChild(put(key, hanging))
      yield* Deferred.await(begun)
      yield* isMissing(key)
      yield* Fiber.interrupt(fiber)
      yield* isMissing(key)
      yield* putBytes(key, bytes)
      assert.strictEqual((yield* read(key)).length, bytes.length)
    }))

  it.effect("dies of a key that could lead elsewhere, and touches nothing", () =>
    Effect.gen(function*() {
      const key = yield* fresh("content")
      yield* putBytes(key, "content")
      const bad: ReadonlyArray<Partial<BlobKey>> = [
        ...["", ".", "..", "../x", "a/b", "a\\b", "a\0", "A", "é", "-x", ".x", "a".repeat(121), "a?b", "a%2fb", "a b", "a\n"].flatMap((
          name
        ) => [
          { grantId: name },
          { holder: name }
        ]),
        ...["", key.sha256.toUpperCase(), key.sha256.slice(1), `${key.sha256}0`, `../${key.sha256.slice(3)}`].map((sha256) => ({ sha256 })),
        ...[-1, 0.5, Number.NaN, Infinity].map((size) => ({ size }))
      ]
      for (const part of bad) {
        const other = { ...key, ...part }
        for (const used of [putBytes(other, "content"), Effect.asVoid(read(other)), remove(other)]) {
          const exit = yield* Effect.exit(used as Effect.Effect<void, unknown, Blobs>)
          assert.isTrue(Exit.isFailure(exit) && Exit.hasDies(exit), JSON.stringify(part))
        }
      }
      assert.strictEqual(yield* readText(key), "content")
    }))
}

const sharing = (it: Test) => {
  it.effect("keeps equal content of other grants and other holders apart", () =>
    Effect.gen(function*() {
      const [mine, other] = [yield* grant, yield* grant]
      const keys = [keyOf("same", mine, "file_1"), keyOf("same", mine, "file_2"), keyOf("same", other, "file_1")]
      for (const [i, key] of keys.entries()) {
        for (const later of keys.slice(i)) yield* isMissing(later)
        yield* putBytes(key, "same")
      }
      for (const [i, key] of keys.entries()) {
        yield* remove(key)
        yield* isMissing(key)
        for (const later of keys.slice(i + 1)) assert.strictEqual(yield* readText(later), "same")
      }
    }))

  it.effect("keeps different contents of one holder apart", () =>
    Effect.gen(function*() {
      const grantId = yield* grant
      const keys = ["one", "two", ""].map((content) => [keyOf(content, grantId), content] as const)
      for (const [key, content] of keys) yield* putBytes(key, content)
      for (const [key, content] of keys) assert.strictEqual(yield* readText(key), content)
      yield* remove(keyOf("one", grantId))
      yield* isMissing(keyOf("one", grantId))
      assert.strictEqual(yield* readText(keyOf("two", grantId)), "two")
    }))

  it.effect("finds nothing by a key of another size", () =>
    Effect.gen(function*() {
      const key = yield* fresh("content")
      yield* putBytes(key, "content")
      for (const size of [0, 6, 8]) yield* isMissing({ ...key, size })
      assert.strictEqual(yield* readText(key), "content")
    }))

  it.effect("succeeds again for what is stored already", () =>
    Effect.gen(function*() {
      const bytes = noise(MEBIBYTE + 3)
      const key = yield* fresh(bytes)
      yield* putBytes(key, bytes)
      yield* putBytes(key, bytes)
      yield* put(key, inParts(bytes, [100_000]))
      isSame(yield* read(key), bytes)
    }))

  it.effect("takes one blob from several callers at once", () =>
    Effect.gen(function*() {
      const bytes = noise(MEBIBYTE + 30)
      const key = yield* fresh(bytes)
      const slow = Stream.tap(inParts(bytes, [MEBIBYTE / 4 + 1]), () => Effect.yieldNow)
      yield* Effect.all(Array.from({ length: 6 }, () => put(key, slow)), { concurrency: "unbounded" })
      isSame(yield* read(key), bytes)
      yield* remove(key)
      yield* isMissing(key)
    }))

  it.effect("takes one blob from a caller while the put of another one fails", () =>
    Effect.gen(function*() {
      const bytes = noise(MEBIBYTE + 30)
      const key = yield* fresh(bytes)
      const [begun, stored] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const failing = Stream.concat(
        inParts(bytes.subarray(0, MEBIBYTE + 5), [MEBIBYTE, 5]),
        Stream.fromEffect(
          Effect.andThen(Deferred.succeed(begun, undefined), Effect.andThen(Deferred.await(stored), Effect.fail("cut" as const)))
        )
      )
      const fiber = yield* Effect.forkChild(Effect.exit(put(key, failing)))
      yield* Deferred.await(begun)
      yield* putBytes(key, bytes)
      yield* Deferred.succeed(stored, undefined)
      yield* Fiber.join(fiber)
      isSame(yield* read(key), bytes)
    }))
}

const removals = (it: Test) => {
  it.effect("removes a blob, once or again, and takes it anew afterwards", () =>
    Effect.gen(function*() {
      const bytes = noise(MEBIBYTE + 9)
      const key = yield* fresh(bytes)
      yield* remove(key)
      yield* putBytes(key, bytes)
      yield* remove(key)
      yield* isMissing(key)
      yield* remove(key)
      yield* putBytes(key, bytes)
      isSame(yield* read(key), bytes)
    }))

  it.effect("gives all of a blob that is removed while it is read, or fails", () =>
    Effect.gen(function*() {
      const bytes = noise(3 * MEBIBYTE + 1)
      const key = yield* fresh(bytes)
      yield* putBytes(key, bytes)
      const blobs = yield* Blobs
      let size = 0
      const exit = yield* Effect.exit(Stream.runForEach(blobs.get(key), (chunk) => {
        const isFirst = size === 0
        size += chunk.length
        return isFirst ? blobs.remove(key) : Effect.void
      }))
      if (Exit.isSuccess(exit)) assert.strictEqual(size, bytes.length)
      else assert.strictEqual((yield* Effect.flip(exit))._tag, "BlobNotFound")
    }))

  it.effect("lets a reader stop early", () =>
    Effect.gen(function*() {
      const bytes = noise(2 * MEBIBYTE + 1)
      const key = yield* fresh(bytes)
      yield* putBytes(key, bytes)
      const blobs = yield* Blobs
      for (let i = 0; i < 20; i++) yield* Stream.runDrain(Stream.take(blobs.get(key), 1))
      assert.strictEqual((yield* read(key)).length, bytes.length)
    }))
}

/** On the real clock. */
export const suite = (name: string, layer: Layer.Layer<Blobs | Ids, unknown>) =>
  defineLive(`Blobs: ${name}`, layer, (it) => {
    contents(it)
    refusals(it)
    sharing(it)
    removals(it)
  })
