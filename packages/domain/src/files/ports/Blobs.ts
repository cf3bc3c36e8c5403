/**
 * Port: bytes that are named by their content, such as the files of prompts (docs/decisions/21) and the pieces of checkpoints. Stores
 * beside it say which blobs there are and who needs them; this port keeps the bytes. Checked by `BlobsContract`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"

/** Bytes of one blob (our choice). Larger content is split into several. */
export const MAX_BLOB_BYTES = 32 * 2 ** 20

/** 64 lower-case hex digits. */
export const Sha256 = Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/u, { expected: "64 lower-case hex digits" }))

const Name = Schema.String.check(
  Schema.isPattern(/^[0-9a-z_][0-9a-z_-]{0,119}$/u, { expected: "1 to 120 lower-case letters, digits, _ and -" })
)

/**
 * Names the bytes of a blob, and who holds them. A put needs all of it before the first byte. The same content of another grant or another
 * holder is another blob, so the removal of one never takes the bytes of another.
 */
export const BlobKey = Schema.Struct({
  grantId: Name,
  /** What needs the blob, such as a file's id. Use an id that is never given twice: then no late removal can meet a new blob. */
  holder: Name,
  /** SHA-256 of the bytes. */
  sha256: Sha256,
  /** Number of bytes. */
  size: Schema.Natural
})
export type BlobKey = typeof BlobKey.Type

const isKey = Schema.is(BlobKey)

/**
 * The name of the blob below the place of all: `grant/sha256.holder`. Made of letters, digits, `_`, `-`, `.` and one `/`; no name begins
 * with a dot. Throws for a key with other parts, which is a bug of the caller.
 */
export const nameOf = (key: BlobKey): string => {
  if (!isKey(key)) throw new Error("A blob has an invalid key.")
  return `${key.grantId}/${key.sha256}.${key.holder}`
}

/** No such blob is stored, or its bytes are damaged. A retry does not help. */
export class BlobNotFound extends Schema.TaggedError<BlobNotFound>()("BlobNotFound", {}) {
  override get message() {
    return "The bytes are missing or damaged."
  }
}

/** The key names more than {@link MAX_BLOB_BYTES}. A retry does not help. */
export class BlobTooLarge extends Schema.TaggedError<BlobTooLarge>()("BlobTooLarge", {}) {
  override get message() {
    return `A blob has at most ${MAX_BLOB_BYTES} bytes.`
  }
}

/** The content has another size or another SHA-256 than its key. Nothing is stored. A retry with the same content does not help. */
export class BlobMismatch extends Schema.TaggedError<BlobMismatch>()("BlobMismatch", {}) {
  override get message() {
    return "The bytes differ from their size or SHA-256."
  }
}

/** Computes a SHA-256 while bytes come, such as `createHash("sha256")` of `node:crypto`. */
export interface Hasher {
  update(bytes: Uint8Array): unknown
  digest(encoding: "hex"): string
}

/**
 * The content as it comes, for adapters. Fails with what `mismatch` makes at the first byte too many, or at the end if it is not the
 * content of the key.
 */
export const checked = <E, R, E2>(
  { sha256, size }: BlobKey,
  content: Stream.Stream<Uint8Array, E, R>,
  makeHasher: () => Hasher,
  mismatch: () => E2
): Stream.Stream<Uint8Array, E | E2, R> =>
  Stream.suspend(() => {
    const hasher = makeHasher()
    let bytes = 0
    return content.pipe(
      Stream.mapEffect((chunk) => {
        bytes += chunk.length
        if (bytes > size) return Effect.fail(mismatch())
        hasher.update(chunk)
        return Effect.succeed(chunk)
      }),
      Stream.concat(Stream.suspend(() => bytes === size && hasher.digest("hex") === sha256 ? Stream.empty : Stream.fail(mismatch())))
    )
  })

/** Checked by `BlobsContract`. After `StoreUnavailable`, retrying helps and is safe. A key that is no {@link BlobKey} is a defect. */
export class Blobs extends Context.Service<Blobs, {
  /**
   * Stores the content durably. A blob that is stored already stays, and its content need not be read. A failed or interrupted put stores
   * nothing that can be read; `remove` deletes what it left. Memory holds only parts of `content`.
   */
  put<E, R>(
    key: BlobKey,
    content: Stream.Stream<Uint8Array, E, R>
  ): Effect.Effect<void, E | BlobMismatch | BlobTooLarge | StoreUnavailable, R>
  /**
   * The bytes as they were put. Fails at the beginning, or in the middle if they are removed or found damaged. A stream that ends without
   * an error is complete, and its bytes have the SHA-256 of the key. The caller has checked access to them.
   */
  get(key: BlobKey): Stream.Stream<Uint8Array, BlobNotFound | StoreUnavailable>
  /** Deletes the bytes. Safe to repeat, and for a blob that was never stored. A put of the same key must not be under way. */
  remove(key: BlobKey): Effect.Effect<void, StoreUnavailable>
}>()("@slipway/domain/Blobs") {
}
