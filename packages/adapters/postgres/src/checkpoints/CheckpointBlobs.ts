/**
 * The bytes of checkpoints as blobs, wherever those are: several of 8 MiB for each checkpoint. A row in the database names each blob before
 * it is stored, and stays until the content is forgotten, so that a blob that is stored late is found and removed.
 */
import { type BlobKey, Blobs } from "@slipway/domain/files/ports/Blobs"
import { CheckpointNotFound } from "@slipway/domain/sandbox/ports/Checkpoints"
import { StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import { Effect, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { guard } from "../sql/SqlFailure.ts"
import type { CheckpointContents, ContentKey } from "./CheckpointContents.ts"
import { blobRows, insertBlobRow } from "./statements/blobs.ts"

/** Pieces of a blob, of 1 MiB each. A blob is held in memory while it is stored, so that it can be sent again. */
const PIECES = 8

/** Two databases that were one, or that share the place of blobs, differ in one of them. */
const holderOf = ({ checkpoint, fence, id, sandboxId }: ContentKey, n: number) => `${sandboxId}-${checkpoint}-${fence}-${id}-${n}`

const joined = (pieces: ReadonlyArray<Uint8Array>): Uint8Array => {
  const all = new Uint8Array(pieces.reduce((bytes, { length }) => bytes + length, 0))
  let at = 0
  for (const piece of pieces) {
    all.set(piece, at)
    at += piece.length
  }
  return all
}

export const make: Effect.Effect<CheckpointContents, never, Blobs | SqlClient.SqlClient> = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const blobs = yield* Blobs
  const rowsOf = blobRows(sql)
  const keys = (key: ContentKey) =>
    Effect.map(
      guard(rowsOf(key.id)),
      (rows): ReadonlyArray<BlobKey> => rows.map(({ grantId, n, sha256, size }) => ({ grantId, holder: holderOf(key, n), sha256, size }))
    )

  return {
    place: "blobs",

    write: (key, pieces) =>
      Stream.runForEach(
        Stream.zipWithIndex(Stream.grouped(pieces, PIECES)),
        Effect.fnUntraced(function*([group, n]) {
          const data = joined(group)
          const sha256 = createHash("sha256").update(data).digest("hex")
          const [row] = yield* guard(
            insertBlobRow(sql, key, { n, sha256, size: data.length }).pipe(
              // Its row was forgotten between being looked at and being referred to.
              Effect.catchReason("SqlError", "ConstraintError", () => Effect.fail(new StaleLease()))
            )
          )
          if (row === undefined) return yield* new StaleLease()
          const blob: BlobKey = { grantId: row.grantId, holder: holderOf(key, n), sha256, size: data.length }
          yield* blobs.put(blob, Stream.make(data)).pipe(
            Effect.catchTags({ BlobMismatch: Effect.die, BlobTooLarge: Effect.die })
          )
        })
      ),

    read: (key) =>
      Stream.unwrap(Effect.map(keys(key), (all) =>
        Stream.flatMap(
          Stream.fromIterable(all),
          (blob) => Stream.catchTag(blobs.get(blob), "BlobNotFound", () => Stream.fail(new CheckpointNotFound()))
        ))),

    remove: (key) => Effect.flatMap(keys(key), (all) => Effect.forEach(all, (blob) => blobs.remove(blob), { discard: true }))
  }
})
