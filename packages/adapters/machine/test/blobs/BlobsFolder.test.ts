import { assert, it } from "@effect/vitest"
import { Blobs, nameOf } from "@slipway/domain/files/ports/Blobs"
import { isMissing, keyOf, putBytes, read } from "@slipway/testing/contracts/files/BlobsContract"
import { Deferred, Effect, Fiber, Layer, Logger, Stream } from "effect"
import { mkdirSync, readdirSync, renameSync, rmSync, statSync, symlinkSync, truncateSync, writeFileSync } from "node:fs"
import path from "node:path"
import * as BlobsFolder from "../../src/blobs/BlobsFolder.ts"
import * as SmallDisk from "../../testing/SmallDisk.ts"
import { temporary } from "./Places.ts"

const content = new Uint8Array(300_000).fill(3)
const key = keyOf(content, "grant")
const put = putBytes(key, content)
const remove = Blobs.use((blobs) => blobs.remove(key))
const tagOf = <R>(refused: Effect.Effect<unknown, { readonly _tag: string }, R>) => Effect.map(Effect.flip(refused), ({ _tag }) => _tag)

/** In a folder of its own; `said`: what was logged. */
const live = (
  states: string,
  use: (folder: string, said: ReadonlyArray<string>) => Effect.Effect<void, unknown, Blobs>,
  within: Effect.Effect<string> | null = null
) =>
  it.live(states, () =>
    Effect.scoped(Effect.gen(function*() {
      const folder = within === null ? yield* temporary : yield* within
      const said: Array<string> = []
      const logger = Logger.make(({ message }) => void said.push(String(message)))
      return yield* use(folder, said).pipe(Effect.provide(Layer.merge(BlobsFolder.layer(folder), Logger.layer([logger]))))
    })))

/** Beneath `folder`, as paths from it, sorted. */
const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => statSync(path.join(folder, name)).isFile()).sort()

live("a blob is a file for the account of the service alone, and is named by grant, hash and holder", (folder) =>
  Effect.gen(function*() {
    yield* put
    assert.deepStrictEqual(filesIn(folder), [nameOf(key)])
    assert.strictEqual(statSync(path.join(folder, nameOf(key))).mode & 0o777, 0o600)
    assert.deepStrictEqual(readdirSync(folder).map((name) => statSync(path.join(folder, name)).mode & 0o777), [0o700, 0o700])
    yield* remove
    assert.deepStrictEqual(filesIn(folder), [])
  }))

live("a put that fails or is interrupted leaves no file", (folder) =>
  Effect.gen(function*() {
    const blobs = yield* Blobs
    yield* Effect.flip(blobs.put(key, Stream.concat(Stream.make(content.subarray(1)), Stream.fail("cut"))))
    assert.deepStrictEqual(filesIn(folder), [])
    const begun = yield* Deferred.make<void>()
    const hanging = Stream.concat(
      Stream.make(content.subarray(1)),
      Stream.fromEffect(Effect.andThen(Deferred.succeed(begun, undefined), Effect.never))
    )
    const fiber = yield* Effect.forkChild(blobs.put(key, hanging))
    yield* Deferred.await(begun)
    assert.strictEqual(filesIn(folder).length, 1)
    yield* Fiber.interrupt(fiber)
    assert.deepStrictEqual(filesIn(folder), [])
  }))

live("what a killed process left goes with the blob, and with no other", (folder) =>
  Effect.gen(function*() {
    const blobs = yield* Blobs
    const other = keyOf(content, "grant", "file_2")
    const leftover = (of: typeof key) =>
      blobs.put(
        of,
        Stream.unwrap(Effect.sync(() => {
          const partial = filesIn(folder).find((file) => file.startsWith(".partial/") && !file.endsWith(".left"))
          writeFileSync(path.join(folder, `${partial}.left`), "left")
          return Stream.make(content)
        }))
      )
    yield* leftover(key)
    yield* leftover(other)
    assert.strictEqual(filesIn(folder).length, 4)
    yield* remove
    assert.strictEqual(filesIn(folder).length, 2)
    assert.strictEqual((yield* read(other)).length, content.length)
    yield* blobs.remove(other)
    assert.deepStrictEqual(filesIn(folder), [])
  }))

live(
  "a cut or changed file, a link and a folder in its place are no blob, and a put mends the cut one",
  (folder) =>
    Effect.gen(function*() {
      const file = path.join(folder, nameOf(key))
      yield* put
      truncateSync(file, 1000)
      yield* isMissing(key)
      yield* put
      assert.strictEqual((yield* read(key)).length, content.length)
      writeFileSync(file, new Uint8Array(content.length).fill(4))
      yield* isMissing(key)
      rmSync(file)
      writeFileSync(path.join(folder, "elsewhere"), content)
      symlinkSync("../elsewhere", file)
      yield* isMissing(key)
      rmSync(file)
      mkdirSync(file)
      yield* isMissing(key)
    })
)

live("a folder whose disk is not mounted says nothing of a blob, keeps none and forgets none", (folder, said) =>
  Effect.gen(function*() {
    yield* put
    const mounted = `${folder}.mounted`
    renameSync(folder, mounted)
    yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(mounted, { recursive: true, force: true })))
    for (const empty of [false, true]) {
      if (empty) mkdirSync(folder)
      assert.strictEqual(yield* tagOf(read(key)), "StoreUnavailable")
      assert.strictEqual(yield* tagOf(remove), "StoreUnavailable")
      if (!empty) assert.strictEqual(yield* tagOf(put), "StoreUnavailable")
    }
    assert.match(said[0] ?? "", /^Blobs cannot be kept in .*: it is not there, or is empty\. Make it, or mount what it is on\./u)
    rmSync(folder, { recursive: true, force: true })
    renameSync(mounted, folder)
    assert.strictEqual((yield* read(key)).length, content.length)
  }).pipe(Effect.scoped))

it.live.skipIf(!SmallDisk.isPossible)(
  "a disk that is full, read-only or out of inodes is told, and takes blobs again once it is mended",
  () =>
    Effect.scoped(Effect.gen(function*() {
      const disk = yield* SmallDisk.make(4)
      const said: Array<string> = []
      const logger = Logger.make(({ message }) => void said.push(String(message)))
      const layer = Layer.merge(BlobsFolder.layer(disk.path), Logger.layer([logger]))
      yield* Effect.provide(
        Effect.gen(function*() {
          yield* put
          for (const trouble of SmallDisk.TROUBLES) {
            disk.spoil(trouble)
            assert.strictEqual(yield* tagOf(putBytes(keyOf("more", "grant"), "more")), "StoreUnavailable", trouble)
            assert.strictEqual((yield* read(key)).length, content.length)
            disk.mend()
            yield* isMissing(keyOf("more", "grant"))
          }
          yield* putBytes(keyOf("more", "grant"), "more")
          assert.match(said.join(), /its disk is full\. Make room on it.*its disk is read-only\. Mount it writable/u)
        }),
        layer
      )
    }))
)
