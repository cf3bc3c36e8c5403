import { assert, it } from "@effect/vitest"
import { Blobs } from "@slipway/domain/files/ports/Blobs"
import * as BlobsMemory from "@slipway/domain/memory/files/BlobsMemory"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { held } from "@slipway/machine/testing/HeldMemory"
import * as CheckpointsContract from "@slipway/testing/contracts/sandbox/CheckpointsContract"
import { numbers, prune, putText, read, take, takenOver, worked } from "@slipway/testing/contracts/sandbox/CheckpointsContract"
import * as ForksContract from "@slipway/testing/contracts/sandbox/ForksContract"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Effect, Exit, Layer, Stream } from "effect"
import { SqlClient } from "effect/sql"
import * as BlobsPostgres from "../../src/blobs/BlobsPostgres.ts"
import * as CheckpointChunks from "../../src/checkpoints/CheckpointChunks.ts"
import * as CheckpointsPostgres from "../../src/checkpoints/CheckpointsPostgres.ts"
import { stores } from "../Stores.ts"

/** A layer of its own each time, because a layer that is built already would keep its blobs. */
const inBlobs = () => CheckpointsPostgres.layerIn({ folder: null, writes: "blobs" })
/** The last checkpoint of a finished sandbox is kept until then. */
const later = DateTime.makeUnsafe("2100-01-01T00:00:00Z")

register(CheckpointsContract.suite("blobs in memory", stores(Layer.provide(inBlobs(), BlobsMemory.layer))))
const inPostgres = stores(Layer.provide(inBlobs(), BlobsPostgres.layer))
register(CheckpointsContract.suite("blobs in Postgres", inPostgres))
register(CheckpointsContract.streaming("blobs in Postgres", inPostgres, held))

/** Over the same blobs as the test. */
const both = stores(inBlobs().pipe(Layer.provideMerge(BlobsPostgres.layer)))
const count = (table: string) =>
  Effect.map(
    SqlClient.SqlClient.use((sql) => sql.unsafe<{ readonly n: number }>(`SELECT count(*)::int AS n FROM ${table}`)),
    ([row]) => row?.n
  )

/** The checkpoints of a process of the version before, which knows no blobs. */
const before = Layer.effect(Checkpoints, Effect.flatMap(CheckpointChunks.make, (database) => CheckpointsPostgres.make([database])))

it.live("a checkpoint is some blobs of its sandbox's grant, each with a row, and all go when it is forgotten", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const { lease, sandbox } = yield* worked()
    yield* take(sandbox, lease, [1])
    const [blob, ...more] = yield* sql`SELECT grant_id AS "grantId", holder, whole FROM blobs`
    assert.deepStrictEqual(more, [])
    assert.strictEqual(blob?.["grantId"], sandbox.grantId)
    assert.match(String(blob?.["holder"]), new RegExp(`^${sandbox.id}-1-${lease.fence}-\\d+-0$`, "u"))
    assert.deepStrictEqual([yield* count("checkpoint_blobs"), yield* count("checkpoint_chunks")], [1, 0])
    yield* ForksContract.settle(sandbox)
    yield* prune(later)
    assert.deepStrictEqual([yield* count("blobs"), yield* count("checkpoint_blobs"), yield* count("checkpoint_contents")], [0, 0, 0])
  }).pipe(Effect.provide(both)))

it.live("checkpoints of the version before stay readable, and are forgotten as before", () =>
  Effect.gen(function*() {
    const { lease, sandbox } = yield* worked()
    const first = yield* take(sandbox, lease, [1]).pipe(Effect.provide(before))
    yield* take(first, lease, [2])
    assert.deepStrictEqual([yield* count("checkpoint_chunks"), yield* count("checkpoint_blobs")], [1, 1])
    assert.strictEqual(yield* read(sandbox.id, 1), "content 1")
    assert.strictEqual(yield* read(sandbox.id, 2), "content 2")
    yield* ForksContract.settle(sandbox)
    yield* prune(later)
    assert.deepStrictEqual([yield* count("checkpoint_chunks"), yield* count("blobs"), yield* count("checkpoint_contents")], [0, 0, 0])
  }).pipe(Effect.provide(both)))

it.live("a process of the version before goes on: it keeps checkpoints, lists all, loses none and says that it cannot read some", () =>
  Effect.gen(function*() {
    const { lease, sandbox } = yield* worked()
    const first = yield* take(sandbox, lease, [1])
    const earlier = Effect.provide(before)
    yield* take(first, lease, [2]).pipe(earlier)
    assert.strictEqual(yield* read(sandbox.id, 2).pipe(earlier), "content 2")
    assert.strictEqual((yield* Effect.flip(read(sandbox.id, 1).pipe(earlier)))._tag, "StoreUnavailable")
    assert.deepStrictEqual(yield* numbers(sandbox.id).pipe(earlier), [1, 2])
    yield* ForksContract.settle(sandbox)
    yield* prune(later).pipe(earlier)
    assert.strictEqual(yield* count("blobs"), 1)
    yield* prune(later)
    assert.deepStrictEqual([yield* count("blobs"), yield* count("checkpoint_contents")], [0, 0])
  }).pipe(Effect.provide(both)))

it.live("a missing or damaged blob makes the checkpoint missing, and blobs that cannot be reached make the store unavailable", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const { lease, sandbox } = yield* worked()
    yield* take(sandbox, lease, [1, 2, 3])
    const [first] = yield* sql`SELECT id FROM blobs WHERE holder LIKE ${`${sandbox.id}-1-%`}`
    yield* sql`UPDATE blob_chunks SET data = set_byte(data, 3, 7) WHERE blob = ${Number(first?.["id"])}`
    yield* sql`DELETE FROM blobs WHERE holder LIKE ${`${sandbox.id}-2-%`}`
    for (const n of [1, 2]) assert.strictEqual((yield* Effect.flip(read(sandbox.id, n)))._tag, "CheckpointNotFound")
    assert.strictEqual(yield* read(sandbox.id, 3), "content 3")
    const unavailable = new StoreUnavailable({ cause: new Error("away") })
    const away = inBlobs().pipe(Layer.provide(Layer.succeed(Blobs, {
      put: () => Effect.fail(unavailable),
      get: () => Stream.fail(unavailable),
      remove: () => Effect.fail(unavailable)
    })))
    assert.strictEqual((yield* Effect.flip(read(sandbox.id, 3).pipe(Effect.provide(away))))._tag, "StoreUnavailable")
    assert.strictEqual((yield* Effect.flip(putText(lease, 4, "lost").pipe(Effect.provide(away))))._tag, "StoreUnavailable")
    // The blobs that could not be removed are still known, and go later.
    yield* ForksContract.settle(sandbox)
    assert.isTrue(Exit.isFailure(yield* Effect.exit(prune(later).pipe(Effect.provide(away)))))
    assert.isAbove((yield* count("checkpoint_blobs")) ?? 0, 0)
    yield* prune(later)
    assert.deepStrictEqual([yield* count("blobs"), yield* count("checkpoints")], [0, 0])
  }).pipe(Effect.provide(both)))

it.live("a blob that is stored after its lease and the first removal goes with the second one", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const { lease, sandbox } = yield* worked()
    const blobs = yield* Blobs
    // Its worker is killed after the blob was stored, and what removes it comes before that.
    const late: Array<Effect.Effect<void, unknown>> = []
    const killed = inBlobs().pipe(Layer.provide(Layer.succeed(Blobs, {
      ...blobs,
      put: (key, content) =>
        Effect.flatMap(Stream.runCollect(content), (chunks) => {
          late.push(blobs.put(key, Stream.fromIterable(chunks)))
          return Effect.die("killed")
        })
    })))
    yield* Effect.exit(putText(lease, 1, "late").pipe(Effect.provide(killed)))
    const next = yield* takenOver(sandbox.id)
    yield* prune()
    yield* Effect.forEach(late, (put) => Effect.ignore(put))
    assert.strictEqual(yield* count("blobs"), 1)
    yield* sql`UPDATE checkpoint_contents SET due_at = due_at - interval '1 hour' WHERE NOT seen`
    yield* prune()
    assert.strictEqual(yield* count("blobs"), 0)
    yield* take(sandbox, next, [1])
    assert.strictEqual(yield* read(sandbox.id, 1), "content 1")
  }).pipe(Effect.provide(both)))
