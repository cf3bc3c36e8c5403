/** `Blobs` on Postgres: a row for each MiB, so that no statement is long and no row is large. */
import {
  type BlobKey,
  BlobMismatch,
  BlobNotFound,
  Blobs,
  BlobTooLarge,
  checked,
  MAX_BLOB_BYTES,
  nameOf
} from "@slipway/domain/files/ports/Blobs"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Effect, Layer, Sink, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { inPieces } from "../checkpoints/Compression.ts"
import { guard } from "../sql/SqlFailure.ts"
import { deleteBlob, deleteBlobs, findBlob, finishBlob, insertBlob, insertChunk, insertWhole, readChunk } from "./statements.ts"

const sha256 = () => createHash("sha256")

/** Another caller removed the blob while it was stored. A repeated put stores it. */
const removed = () => Effect.fail(new StoreUnavailable({ cause: new Error("a blob was removed while it was stored") }))

/** Stores a blob of several pieces. Of several puts at once, the first that is through counts. */
const putPieces = Effect.fnUntraced(function*<E, R>(sql: SqlClient.SqlClient, key: BlobKey, pieces: Stream.Stream<Uint8Array, E, R>) {
  const [row] = yield* guard(insertBlob(sql, key))
  if (row === undefined) return yield* removed()
  const id = Number(row.id)
  const storing = Effect.gen(function*() {
    yield* Stream.runForEach(
      Stream.zipWithIndex(pieces),
      ([data, n]) => guard(insertChunk(sql, id, n, data).pipe(Effect.catchReason("SqlError", "ConstraintError", removed)))
    )
    const finished = yield* guard(
      finishBlob(sql, id).pipe(Effect.catchReason("SqlError", "UniqueViolation", () => Effect.succeed([])))
    )
    if (finished.length > 0) return
    yield* guard(deleteBlob(sql, id))
    if ((yield* guard(findBlob(sql)(key))).length === 0) return yield* removed()
  })
  return yield* Effect.onError(storing, () => Effect.ignore(guard(deleteBlob(sql, id))))
})

const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const find = findBlob(sql)

  return Blobs.of({
    put: Effect.fn("Blobs.put")(
      function*<E, R>(key: BlobKey, content: Stream.Stream<Uint8Array, E, R>) {
        nameOf(key)
        if (key.size > MAX_BLOB_BYTES) return yield* new BlobTooLarge()
        if ((yield* guard(find(key))).length > 0) return
        const pieces = inPieces(checked(key, content, sha256, () => new BlobMismatch()))
        const [head, rest] = yield* Stream.peel(pieces, Sink.take(2))
        const [only] = head
        // One statement: each commit waits for the disk.
        if (head.length < 2) return void (yield* guard(insertWhole(sql, key, only ?? new Uint8Array())))
        yield* putPieces(sql, key, Stream.concat(Stream.fromIterable(head), rest))
      },
      Effect.scoped
    ),

    get: (key) =>
      Stream.unwrap(Effect.map(
        Effect.suspend(() => {
          nameOf(key)
          return guard(find(key))
        }),
        ([found]) => {
          if (found === undefined) return Stream.fail(new BlobNotFound())
          const chunks = Stream.unfold(0, (n) =>
            Effect.map(
              guard(readChunk(sql, found.id, n)),
              ([row]) => row === undefined ? undefined : [row.data, n + 1] as const
            ))
          return checked(key, chunks, sha256, () => new BlobNotFound())
        }
      )),

    remove: Effect.fn("Blobs.remove")((key: BlobKey) => {
      nameOf(key)
      return Effect.asVoid(guard(deleteBlobs(sql, key)))
    })
  })
})

/** In the tables `blobs` and `blob_chunks`. */
export const layer: Layer.Layer<Blobs, never, SqlClient.SqlClient> = Layer.effect(Blobs, make)
