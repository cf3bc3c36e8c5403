import { assert, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { openSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { mkdtemp } from "node:fs/promises"
import { join } from "node:path"
import * as TreesArchive from "../src/save/TreesArchive.ts"
import { temporaryFolder } from "../testing/Repositories.ts"

/** Written by a version before this one: a tree with a pack, and one without. */
const stored = readFileSync(new URL("stored/trees.bin", import.meta.url))
const MAXIMUM_BYTES = 1_000

const read = (folder: string, bytes: Uint8Array, size = bytes.length) =>
  Effect.flatMap(Effect.promise(() => mkdtemp(join(folder, "read-"))), (into) => {
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size))
    return TreesArchive.read(Stream.fromIterable(pieces), into, MAXIMUM_BYTES)
  })

it.live("trees of an earlier version are read in pieces of any size, and are written with the same bytes", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    for (const size of [1, 7, stored.length]) {
      const [app, docs] = yield* read(folder, stored, size)
      assert.deepStrictEqual([app?.tree.repo, docs?.tree.repo], ["acme/app", "acme/docs"])
      assert.strictEqual(statSync(docs?.pack ?? "").size, 0)
      if (app === undefined || docs === undefined) return
      const pack = { fd: openSync(app.pack, "r"), size: statSync(app.pack).size }
      assert.strictEqual(readFileSync(app.pack).subarray(0, 4).toString(), "PACK")
      const { content, size: written } = yield* TreesArchive.write([{ tree: app.tree, pack }, { tree: docs.tree, pack: null }])
      assert.deepStrictEqual(Buffer.concat(yield* Stream.runCollect(content)), stored)
      assert.strictEqual(written, stored.length)
    }
  }))

it.live("trees that are cut, have another byte, or go on are damaged", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const refused = Effect.fnUntraced(function*(bytes: Uint8Array, size?: number) {
      return (yield* Effect.flip(read(folder, bytes, size)))._tag
    })
    // Each field has more bytes than that.
    for (let at = 0; at < stored.length; at += 5) {
      assert.strictEqual(yield* refused(stored.subarray(0, at)), "CheckpointDamaged", `cut at ${at}`)
      const changed = Buffer.from(stored)
      changed[at] = (changed[at] ?? 0) ^ 0x41
      assert.strictEqual(yield* refused(changed, 300), "CheckpointDamaged", `byte ${at}`)
    }
    assert.strictEqual(yield* refused(Buffer.concat([stored, Buffer.of(0)])), "CheckpointDamaged")
  }))

it.live("a pack that is larger than it may be is refused before it is written", () =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const [tree] = yield* read(folder, stored)
    const path = join(folder, "large")
    writeFileSync(path, Buffer.alloc(MAXIMUM_BYTES + 1))
    if (tree === undefined) return
    const { content } = yield* TreesArchive.write([{ tree: tree.tree, pack: { fd: openSync(path, "r"), size: MAXIMUM_BYTES + 1 } }])
    const error = yield* Effect.flip(read(folder, Buffer.concat(yield* Stream.runCollect(content))))
    assert.strictEqual(error.message, "the checkpoint cannot be restored: It is larger than it may be.")
  }))
