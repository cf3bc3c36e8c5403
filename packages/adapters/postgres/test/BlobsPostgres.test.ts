import { assert, it } from "@effect/vitest"
import { Blobs } from "@slipway/domain/files/ports/Blobs"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { isMissing, keyOf, putBytes, read, suite } from "@slipway/testing/contracts/files/BlobsContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect, Layer, Stream } from "effect"
import { SqlClient } from "effect/sql"
import * as BlobsPostgres from "../src/blobs/BlobsPostgres.ts"
import { database } from "./Stores.ts"

const layer = Layer.merge(BlobsPostgres.layer, IdsNode.layer).pipe(Layer.provideMerge(database()))

register(suite("postgres", layer))

const MEBIBYTE = 2 ** 20
const content = new Uint8Array(2 * MEBIBYTE + 5).fill(7)
const key = keyOf(content, "grant")
const countOf = (table: string) =>
  Effect.map(
    SqlClient.SqlClient.use((sql) => sql.unsafe<{ readonly n: number }>(`SELECT count(*)::int AS n FROM ${table}`)),
    ([row]) => row?.n
  )

it.live("a blob has a row for each MiB, and a removal leaves no row", () =>
  Effect.gen(function*() {
    const blobs = yield* Blobs
    yield* putBytes(key, content)
    yield* putBytes(keyOf("small", "grant"), "small")
    assert.deepStrictEqual([yield* countOf("blobs"), yield* countOf("blob_chunks")], [2, 4])
    yield* blobs.remove(key)
    yield* blobs.remove(keyOf("small", "grant"))
    assert.deepStrictEqual([yield* countOf("blobs"), yield* countOf("blob_chunks")], [0, 0])
  }).pipe(Effect.provide(layer)))

it.live("a put that fails leaves no row, and what a killed process left goes with the blob", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const blobs = yield* Blobs
    yield* Effect.flip(blobs.put(key, Stream.concat(Stream.make(content.subarray(1)), Stream.fail("cut"))))
    assert.strictEqual(yield* countOf("blobs"), 0)
    yield* sql`INSERT INTO blobs (grant_id, sha256, holder, size, whole) VALUES ('grant', ${key.sha256}, ${key.holder}, ${key.size}, false)`
    yield* sql`INSERT INTO blob_chunks (blob, n, data) SELECT id, 0, '\\x00' FROM blobs`
    yield* isMissing(key)
    yield* putBytes(key, content)
    assert.strictEqual((yield* read(key)).length, content.length)
    yield* blobs.remove(key)
    assert.deepStrictEqual([yield* countOf("blobs"), yield* countOf("blob_chunks")], [0, 0])
  }).pipe(Effect.provide(layer)))

it.live("a blob that was removed while it is stored is reported, and is stored by the next put", () =>
  Effect.gen(function*() {
    const blobs = yield* Blobs
    const removing = Stream.concat(
      Stream.make(content.subarray(0, 2 * MEBIBYTE)),
      Stream.fromEffect(Effect.as(Effect.orDie(blobs.remove(key)), content.subarray(2 * MEBIBYTE)))
    )
    assert.strictEqual((yield* Effect.flip(blobs.put(key, removing)))._tag, "StoreUnavailable")
    yield* isMissing(key)
    yield* putBytes(key, content)
    assert.strictEqual((yield* read(key)).length, content.length)
  }).pipe(Effect.provide(layer)))

it.live("a blob with a changed, cut or missing row is damaged", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    for (
      const damage of [
        sql`UPDATE blob_chunks SET data = set_byte(data, 9, 8) WHERE n = 1`,
        sql`UPDATE blob_chunks SET data = substr(data, 2) WHERE n = 2`,
        sql`DELETE FROM blob_chunks WHERE n = 1`,
        sql`DELETE FROM blob_chunks WHERE n = 2`
      ]
    ) {
      yield* putBytes(key, content)
      assert.strictEqual((yield* read(key)).length, content.length)
      yield* damage
      yield* isMissing(key)
      yield* Blobs.use((blobs) => blobs.remove(key))
    }
  }).pipe(Effect.provide(layer)))
