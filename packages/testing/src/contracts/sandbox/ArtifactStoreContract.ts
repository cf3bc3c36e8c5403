/**
 * The rules that every `ArtifactStore` must keep, beside the `SandboxStore`, `Leases` and `Maintenance` of the same rows. An adapter proves
 * itself by running this suite against its layer; a rule that is missing here is not part of the port.
 */
import { ArtifactStore, type LeftPiece, type StoredArtifact, UNUSED_PIECE_FOR } from "@slipway/domain/files/ports/ArtifactStore"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { LEASE_SECONDS, type Lease } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer as Rules } from "../../suite/Suite.ts"
import { settle } from "./ForksContract.ts"
import { at, keyOf, leased, make, running, StoreFixture, type Stores } from "./SandboxStates.ts"

const PURGED = 10_000
const NONE = { artifacts: [], leftOut: null }
/** The last moment of an unused piece, and the first after it. */
const expiry = DateTime.addDuration(at, UNUSED_PIECE_FOR)
const beforeExpiry = DateTime.subtractDuration(expiry, "1 millis")
const distantFuture = DateTime.add(at, { days: 4000 })

/** A piece with bytes of its own. */
const newPiece = Effect.gen(function*() {
  const ids = yield* Ids
  const letters = yield* ids.random(ID_ALPHABET, 12)
  return { holder: `art_${letters}`, sha256: ids.digest(letters), size: 7 }
})

type Piece = Effect.Success<typeof newPiece>

const artifactOf = (pieces: ReadonlyArray<Piece>, more: Partial<StoredArtifact> = {}): StoredArtifact => ({
  name: "Ünï/'quoted' \u{1F680}.png",
  mediaType: "image/png",
  size: pieces.reduce((sum, { size }) => sum + size, 0),
  sha256: "0123456789abcdef".repeat(4),
  turnId: "0194c0de-0000-7000-8000-000000000001",
  createdAt: at,
  pieces,
  ...more
})

const begin = (lease: Lease, piece: Piece, now = at) => ArtifactStore.use((store) => store.begin(lease, piece, now))

/** Saves one artifact with the pieces. */
const save = Effect.fnUntraced(function*(lease: Lease, ...pieces: ReadonlyArray<Piece>) {
  const store = yield* ArtifactStore
  for (const piece of pieces) yield* begin(lease, piece)
  yield* store.save(lease, { artifacts: [artifactOf(pieces)], leftOut: null })
})

const find = (id: SandboxId) => ArtifactStore.use((store) => store.find(id))

/** The pieces of a purge whose bytes were removed. */
const purge = Effect.fnUntraced(function*(now: DateTime.Utc, limit = PURGED) {
  const store = yield* ArtifactStore
  const removed: Array<LeftPiece> = []
  const count = yield* store.purge(now, limit, (piece) => Effect.sync(() => void removed.push(piece)))
  assert.strictEqual(count, removed.length)
  return removed
})

const holdersOf = (pieces: ReadonlyArray<{ readonly holder: string }>) => pieces.map(({ holder }) => holder)

const saving = (it: Rules<Stores | ArtifactStore>) => {
  it.effect("has the artifacts of a sandbox as they were saved last, and none of another one", () =>
    Effect.gen(function*() {
      const store = yield* ArtifactStore
      const [one, other] = [yield* make(), yield* make()]
      const { lease } = yield* leased(one.id)
      assert.deepStrictEqual(yield* find(one.id), NONE)
      const [first, second] = [yield* newPiece, yield* newPiece]
      yield* save(lease, first, second)
      assert.deepStrictEqual(yield* find(one.id), { artifacts: [artifactOf([first, second])], leftOut: null })
      const later = {
        artifacts: [artifactOf([], { name: "empty", turnId: null }), artifactOf([second])],
        leftOut: "One file was 'left' out."
      }
      yield* store.save(lease, later)
      assert.deepStrictEqual(yield* find(one.id), later)
      assert.deepStrictEqual(yield* find(other.id), NONE)
      assert.deepStrictEqual(yield* find(SandboxId.make("c_aaaaaaaaaaaa")), NONE)
    }))

  it.effect("takes nothing from a worker whose lease is another's by now, or that never had one", () =>
    Effect.gen(function*() {
      const store = yield* ArtifactStore
      const { ageLease } = yield* StoreFixture
      const { id } = yield* make()
      const { lease } = yield* leased(id)
      yield* ageLease(id, LEASE_SECONDS)
      const { lease: next } = yield* leased(id)
      const [piece, kept] = [yield* newPiece, yield* newPiece]
      yield* save(next, kept)
      for (const stale of [lease, { ...next, fence: next.fence + 1 }]) {
        assert.strictEqual((yield* Effect.flip(begin(stale, piece)))._tag, "StaleLease")
        assert.strictEqual((yield* Effect.flip(store.save(stale, NONE)))._tag, "StaleLease")
      }
      assert.deepStrictEqual((yield* find(id)).artifacts, [artifactOf([kept])])
    }))

  it.effect("gives equal bytes of a sandbox one holder, and says when they are stored", () =>
    Effect.gen(function*() {
      const { lease } = yield* leased((yield* make()).id)
      const { lease: elsewhere } = yield* leased((yield* make()).id)
      const piece = yield* newPiece
      const { holder } = yield* newPiece
      assert.deepStrictEqual(yield* begin(lease, piece), { holder: piece.holder, isStored: false })
      assert.deepStrictEqual(yield* begin(lease, { ...piece, holder }), { holder: piece.holder, isStored: false })
      yield* save(lease, piece)
      assert.deepStrictEqual(yield* begin(lease, { ...piece, holder }), { holder: piece.holder, isStored: true })
      assert.deepStrictEqual(yield* begin(elsewhere, { ...piece, holder }), { holder, isStored: false })
    }))
}

const purges = (it: Rules<Stores | ArtifactStore>) => {
  it.effect("deletes a piece an hour after it was begun, unless an artifact has it", () =>
    Effect.gen(function*() {
      yield* purge(distantFuture)
      const { grantId, id } = yield* make()
      const { lease } = yield* leased(id)
      const [used, unused, later] = [yield* newPiece, yield* newPiece, yield* newPiece]
      yield* begin(lease, unused)
      yield* begin(lease, later, DateTime.addDuration(at, "1 millis"))
      yield* save(lease, used)
      assert.deepStrictEqual(yield* purge(beforeExpiry), [])
      assert.deepStrictEqual(yield* purge(expiry), [{ grantId, ...unused }])
      assert.deepStrictEqual(holdersOf(yield* purge(distantFuture)), [later.holder])
      assert.deepStrictEqual((yield* find(id)).artifacts, [artifactOf([used])])
    }))

  it.effect("keeps a piece for another hour that a collection begins again", () =>
    Effect.gen(function*() {
      yield* purge(distantFuture)
      const { lease } = yield* leased((yield* make()).id)
      const piece = yield* newPiece
      yield* begin(lease, piece)
      yield* begin(lease, piece, beforeExpiry)
      assert.deepStrictEqual(yield* purge(expiry), [])
      assert.deepStrictEqual(holdersOf(yield* purge(DateTime.addDuration(beforeExpiry, UNUSED_PIECE_FOR))), [piece.holder])
    }))

  it.effect("deletes a piece that no artifact has any more, and stores its bytes anew then", () =>
    Effect.gen(function*() {
      yield* purge(distantFuture)
      const { lease } = yield* leased((yield* make()).id)
      const [first, second] = [yield* newPiece, yield* newPiece]
      yield* save(lease, first)
      yield* save(lease, second)
      assert.deepStrictEqual(yield* begin(lease, first), { holder: first.holder, isStored: true })
      assert.deepStrictEqual(holdersOf(yield* purge(expiry)), [first.holder])
      const { holder } = yield* newPiece
      assert.deepStrictEqual(yield* begin(lease, { ...first, holder }), { holder, isStored: false })
    }))

  it.effect("forgets the artifacts of a deleted sandbox, and deletes their pieces at once", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { sandbox } = yield* running
      const { lease } = yield* leased(sandbox.id)
      const piece = yield* newPiece
      yield* save(lease, piece)
      yield* settle(sandbox)
      yield* store.delete(keyOf(sandbox), at)
      assert.deepStrictEqual(yield* find(sandbox.id), NONE)
      assert.strictEqual((yield* Effect.flip(begin(lease, yield* newPiece)))._tag, "StaleLease")
      assert.include(holdersOf(yield* purge(at)), piece.holder)
    }))

  it.effect("keeps the artifacts of a finished sandbox until its events are purged", () =>
    Effect.gen(function*() {
      const maintenance = yield* Maintenance
      const { sandbox } = yield* running
      const { lease } = yield* leased(sandbox.id)
      const piece = yield* newPiece
      yield* save(lease, piece)
      yield* settle(sandbox)
      assert.notInclude(holdersOf(yield* purge(distantFuture)), piece.holder)
      assert.lengthOf((yield* find(sandbox.id)).artifacts, 1)
      while ((yield* maintenance.purgeEvents(distantFuture, 100)).more) continue
      assert.include(holdersOf(yield* purge(at)), piece.holder)
      assert.deepStrictEqual(yield* find(sandbox.id), NONE)
    }))

  it.effect("deletes as many pieces as it is told, and names a piece again whose bytes could not be removed", () =>
    Effect.gen(function*() {
      const store = yield* ArtifactStore
      yield* purge(distantFuture)
      const { lease } = yield* leased((yield* make()).id)
      const pieces = [yield* newPiece, yield* newPiece, yield* newPiece]
      for (const piece of pieces) yield* begin(lease, piece)
      assert.strictEqual(yield* Effect.flip(store.purge(expiry, PURGED, () => Effect.fail("no disk" as const))), "no disk")
      const some = yield* purge(expiry, 2)
      assert.lengthOf(some, 2)
      assert.deepStrictEqual(holdersOf([...some, ...(yield* purge(expiry, 2))]).toSorted(), holdersOf(pieces).toSorted())
    }))
}

export const suite = (name: string, layer: Layer.Layer<Stores | ArtifactStore, unknown>) =>
  define(`ArtifactStore (${name})`, layer, (it) => {
    saving(it)
    purges(it)
  })
