/**
 * The rules that every `PromptFiles` must keep, beside the `SandboxStore` and `Maintenance` of the same rows. An adapter proves itself by
 * running this suite against its layer; a rule that is missing here is not part of the port.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import {
  CREATED_WITHIN,
  type LeftFile,
  MAX_SANDBOX_BYTES,
  MAX_SANDBOX_FILES,
  MAX_UNUSED_BYTES,
  PromptFiles,
  type StoredFile,
  UNUSED_FOR
} from "@slipway/domain/sandbox/ports/PromptFiles"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer as Rules } from "../../suite/Suite.ts"
import { settle } from "./ForksContract.ts"
import { at, drive, keyOf, make, running, StoreFixture, type Stores } from "./SandboxStates.ts"

const MEBIBYTE = 1024 * 1024
const PURGED = 10_000
const distantFuture = DateTime.add(at, { days: 4000 })
/** The last moment of an unused file, and the first after it. */
const expiry = DateTime.addDuration(at, UNUSED_FOR)
const beforeExpiry = DateTime.subtractDuration(expiry, "1 millis")

const drawn = (prefix: string) => Effect.flatMap(Ids, (ids) => Effect.map(ids.random(ID_ALPHABET, 12), (letters) => `${prefix}${letters}`))

const newGrant = Effect.flatMap(StoreFixture, ({ grant }) => grant)

const fileOf = Effect.fnUntraced(function*(grantId: string, more: Partial<StoredFile> = {}) {
  const file = {
    id: yield* drawn("file_"),
    grantId,
    name: "Ünï 'quoted' \\ \u{1F680}.png",
    mediaType: "image/png",
    size: 7,
    sha256: "0123456789abcdef".repeat(4),
    createdAt: at,
    ...more
  }
  return file
})

/** An uploaded file. */
const uploaded = Effect.fnUntraced(function*(grantId: string, more: Partial<StoredFile> = {}) {
  const files = yield* PromptFiles
  const file = yield* fileOf(grantId, more)
  yield* files.begin(file)
  yield* files.complete(file)
  return file
})

const isThere = (file: Pick<StoredFile, "grantId" | "id">, now = at) =>
  PromptFiles.use((files) => Effect.map(Effect.result(files.find(file, now)), Result.isSuccess))

/** The files of a purge whose bytes were removed. */
const purge = Effect.fnUntraced(function*(now: DateTime.Utc, limit = PURGED) {
  const files = yield* PromptFiles
  const removed: Array<LeftFile> = []
  const count = yield* files.purge(now, limit, (file) => Effect.sync(() => void removed.push(file)))
  assert.strictEqual(count, removed.length)
  return removed
})

const idsOf = (files: ReadonlyArray<{ readonly id: string }>) => files.map(({ id }) => id)

const use = Effect.fnUntraced(function*(
  sandbox: { readonly grantId: string; readonly id: SandboxId },
  files: ReadonlyArray<{ readonly id: string }>,
  now = at
) {
  return yield* (yield* PromptFiles).use(sandbox, idsOf(files), now)
})

/** A running sandbox of the grant. */
const booted = Effect.fnUntraced(function*(grantId: string) {
  return yield* drive(yield* make({ grantId }), [{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: yield* (yield* Ids).uuid7 }])
})

/** The id of a sandbox that does not exist yet. */
const unborn = Effect.map(drawn("c_"), (id) => SandboxId.make(id))

const uploads = (it: Rules<Stores | PromptFiles>) => {
  it.effect("has a file as it was uploaded, for its grant alone, once all of its bytes are stored", () =>
    Effect.gen(function*() {
      const files = yield* PromptFiles
      const [grantId, other] = [yield* newGrant, yield* newGrant]
      const file = yield* fileOf(grantId)
      assert.isFalse(yield* isThere(file))
      yield* files.begin(file)
      assert.isFalse(yield* isThere(file))
      yield* files.complete({ grantId: other, id: file.id })
      assert.isFalse(yield* isThere(file))
      yield* files.complete(file)
      assert.deepStrictEqual(yield* files.find(file, at), { ...file, isUsed: false })
      assert.isFalse(yield* isThere({ grantId: other, id: file.id }))
    }))

  it.effect("forgets a file that was begun in vain, and none that is complete", () =>
    Effect.gen(function*() {
      const files = yield* PromptFiles
      const grantId = yield* newGrant
      const [begun, whole] = [yield* fileOf(grantId, { size: 5 }), yield* uploaded(grantId)]
      yield* files.begin(begun)
      assert.strictEqual(yield* files.unusedBytes(grantId, at), 12)
      yield* files.discard({ grantId: yield* newGrant, id: begun.id })
      assert.strictEqual(yield* files.unusedBytes(grantId, at), 12)
      for (const file of [begun, whole]) yield* files.discard(file)
      assert.strictEqual(yield* files.unusedBytes(grantId, at), 7)
      assert.isTrue(yield* isThere(whole))
    }))

  it.effect("has an unused file for 24 hours", () =>
    Effect.gen(function*() {
      const file = yield* uploaded(yield* newGrant)
      assert.isTrue(yield* isThere(file, beforeExpiry))
      assert.isFalse(yield* isThere(file, expiry))
      const used = yield* Effect.result(use({ grantId: file.grantId, id: yield* unborn }, [file], expiry))
      assert.isTrue(Result.isFailure(used))
    }))

  it.effect("keeps unused files of a grant within their bytes, those that are being stored included", () =>
    Effect.gen(function*() {
      const files = yield* PromptFiles
      const [grantId, other] = [yield* newGrant, yield* newGrant]
      const size = MAX_UNUSED_BYTES / 2
      const first = yield* uploaded(grantId, { size })
      const second = yield* fileOf(grantId, { size })
      yield* files.begin(second)
      const refused = yield* Effect.flip(files.begin(yield* fileOf(grantId, { size: 1 })))
      assert.strictEqual(refused._tag, "TooManyUnusedFiles")
      yield* uploaded(other, { size: 1 })
      yield* use({ grantId, id: yield* unborn }, [first])
      assert.strictEqual(yield* files.unusedBytes(grantId, at), size)
      yield* files.begin(yield* fileOf(grantId, { size }))
      // An expired file counts no more.
      assert.strictEqual(yield* files.unusedBytes(grantId, expiry), 0)
      yield* files.begin(yield* fileOf(grantId, { size: MAX_UNUSED_BYTES, createdAt: expiry }))
    }))

  it.effect("lets no concurrent uploads together exceed the bytes of a grant", () =>
    Effect.gen(function*() {
      const files = yield* PromptFiles
      const grantId = yield* newGrant
      const wanted = yield* Effect.forEach(Array.from({ length: 5 }), () => fileOf(grantId, { size: MAX_UNUSED_BYTES / 2 }))
      const outcomes = yield* Effect.forEach(wanted, (file) => Effect.result(files.begin(file)), { concurrency: "unbounded" })
      assert.strictEqual(outcomes.filter(Result.isSuccess).length, 2)
    }))
}

const uses = (it: Rules<Stores | PromptFiles>) => {
  it.effect("has the files of a sandbox in the order of their use, and adds none twice", () =>
    Effect.gen(function*() {
      const files = yield* PromptFiles
      const { grantId, id } = yield* make()
      const [one, two, three] = [yield* uploaded(grantId), yield* uploaded(grantId), yield* uploaded(grantId)]
      const first = yield* use({ grantId, id }, [two, one])
      assert.deepStrictEqual(first.files, [two, one].map((file) => ({ ...file, isUsed: true })))
      assert.deepStrictEqual(first.added, [two.id, one.id])
      const again = yield* use({ grantId, id }, [one, three])
      assert.deepStrictEqual([idsOf(again.files), again.added], [[one.id, three.id], [three.id]])
      assert.deepStrictEqual(idsOf(yield* files.ofSandbox(id)), [two.id, one.id, three.id])
      assert.deepStrictEqual(yield* files.ofSandbox((yield* make()).id), [])
    }))

  it.effect("uses all files or none, and none of another grant", () =>
    Effect.gen(function*() {
      const files = yield* PromptFiles
      const sandbox = yield* make()
      const [own, foreign] = [yield* uploaded(sandbox.grantId), yield* uploaded(yield* newGrant)]
      const begun = yield* fileOf(sandbox.grantId)
      yield* files.begin(begun)
      for (const missing of [foreign, begun, { id: yield* drawn("file_") }]) {
        const error = yield* Effect.flip(use(sandbox, [own, missing]))
        assert.deepStrictEqual([error._tag, "id" in error ? error.id : ""], ["PromptFileNotFound", missing.id])
      }
      assert.deepStrictEqual(yield* files.ofSandbox(sandbox.id), [])
      assert.isFalse((yield* files.find(own, at)).isUsed)
    }))

  it.effect("gives a sandbox no more files than one may have, and no more bytes", () =>
    Effect.gen(function*() {
      const { grantId, id } = yield* make()
      const many = yield* Effect.forEach(Array.from({ length: MAX_SANDBOX_FILES }), () => uploaded(grantId, { size: 1 }))
      yield* use({ grantId, id }, many)
      const more = yield* uploaded(grantId, { size: 1 })
      assert.strictEqual((yield* Effect.flip(use({ grantId, id }, [more])))._tag, "TooManyFiles")
      assert.deepStrictEqual((yield* use({ grantId, id }, many.slice(0, 2))).added, [])
      const large = { grantId, id: yield* unborn }
      for (let used = 0; used < MAX_SANDBOX_BYTES; used += 20 * MEBIBYTE) {
        yield* use(large, [yield* uploaded(grantId, { size: 20 * MEBIBYTE })])
      }
      assert.strictEqual((yield* Effect.flip(use(large, [more])))._tag, "TooManyFiles")
      assert.isFalse((yield* (yield* PromptFiles).find(more, at)).isUsed)
    }))

  it.effect("takes files back that a sandbox used in vain", () =>
    Effect.gen(function*() {
      const files = yield* PromptFiles
      const { grantId, id } = yield* make()
      const other = yield* make()
      const [one, two, shared] = [yield* uploaded(grantId), yield* uploaded(grantId), yield* uploaded(grantId)]
      yield* use({ grantId, id }, [one, two, shared])
      yield* use({ grantId, id: other.id }, [shared])
      yield* files.release(id, [two.id, shared.id])
      assert.deepStrictEqual(idsOf(yield* files.ofSandbox(id)), [one.id])
      assert.deepStrictEqual(idsOf(yield* files.ofSandbox(other.id)), [shared.id])
      const areUsed = yield* Effect.forEach([one, two, shared], (file) => Effect.map(files.find(file, at), ({ isUsed }) => isUsed))
      assert.deepStrictEqual(areUsed, [true, false, true])
      assert.isFalse(yield* isThere(two, expiry))
      assert.isTrue(yield* isThere(shared, expiry))
    }))

  it.effect("ends the use by a sandbox that does not exist an hour later", () =>
    Effect.gen(function*() {
      const grantId = yield* newGrant
      const file = yield* uploaded(grantId)
      yield* use({ grantId, id: yield* unborn }, [file])
      const over = DateTime.addDuration(at, CREATED_WITHIN)
      assert.notInclude(idsOf(yield* purge(DateTime.subtractDuration(over, "1 millis"))), file.id)
      assert.include(idsOf(yield* purge(over)), file.id)
    }))
}

const purges = (it: Rules<Stores | PromptFiles>) => {
  it.effect("keeps a used file for as long as a sandbox uses it", () =>
    Effect.gen(function*() {
      const files = yield* PromptFiles
      const grantId = yield* newGrant
      const [one, other] = [yield* booted(grantId), yield* booted(grantId)]
      const file = yield* uploaded(grantId)
      yield* use(one, [file])
      yield* use(other, [file])
      assert.isTrue(yield* isThere(file, distantFuture))
      assert.notInclude(idsOf(yield* purge(distantFuture)), file.id)
      yield* settle(one)
      yield* SandboxStore.use((store) => store.delete(keyOf(one), at))
      assert.deepStrictEqual(yield* files.ofSandbox(one.id), [])
      assert.isTrue(yield* isThere(file, distantFuture))
      yield* settle(other)
      yield* SandboxStore.use((store) => store.delete(keyOf(other), at))
      // At once, although an unused file would stay.
      assert.isFalse(yield* isThere(file))
      const { id, sha256, size } = file
      assert.deepStrictEqual((yield* purge(at)).filter((left) => left.id === id), [{ grantId, id, sha256, size }])
    }))

  it.effect("keeps a used file until the events of its sandbox are purged", () =>
    Effect.gen(function*() {
      const { sandbox } = yield* running
      const file = yield* uploaded(sandbox.grantId)
      yield* use(sandbox, [file])
      yield* settle(sandbox)
      assert.notInclude(idsOf(yield* purge(distantFuture)), file.id)
      const maintenance = yield* Maintenance
      while ((yield* maintenance.purgeEvents(distantFuture, 100)).more) continue
      assert.include(idsOf(yield* purge(at)), file.id)
      assert.isFalse(yield* isThere(file))
    }))

  it.effect("deletes unused files after 24 hours, complete or not, as many as it is told", () =>
    Effect.gen(function*() {
      const files = yield* PromptFiles
      yield* purge(distantFuture)
      const grantId = yield* newGrant
      const begun = yield* fileOf(grantId)
      yield* files.begin(begun)
      const old = [begun, yield* uploaded(grantId), yield* uploaded(grantId)]
      const young = yield* uploaded(grantId, { createdAt: DateTime.addDuration(at, "1 millis") })
      assert.deepStrictEqual(yield* purge(beforeExpiry), [])
      const some = yield* purge(expiry, 2)
      assert.lengthOf(some, 2)
      const all = [...some, ...(yield* purge(expiry, 2))]
      assert.deepStrictEqual(idsOf(all).toSorted(), idsOf(old).toSorted())
      assert.isTrue(yield* isThere(young, expiry))
    }))

  it.effect("names a file again whose bytes could not be removed", () =>
    Effect.gen(function*() {
      const files = yield* PromptFiles
      yield* purge(distantFuture)
      const file = yield* uploaded(yield* newGrant)
      assert.strictEqual(yield* Effect.flip(files.purge(expiry, PURGED, () => Effect.fail("no disk" as const))), "no disk")
      assert.isFalse(yield* isThere(file, expiry))
      assert.deepStrictEqual(idsOf(yield* purge(expiry)), [file.id])
      assert.deepStrictEqual(yield* purge(expiry), [])
    }))
}

export const suite = (name: string, layer: Layer.Layer<Stores | PromptFiles, unknown>) =>
  define(`PromptFiles (${name})`, layer, (it) => {
    uploads(it)
    uses(it)
    purges(it)
  })
