/** `Blobs` in memory: for tests and for embedding without a database. Only this adapter holds whole blobs. State dies with the layer. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { BlobMismatch, BlobNotFound, Blobs, BlobTooLarge, type BlobKey, MAX_BLOB_BYTES, nameOf } from "../../src/files/ports/Blobs.ts"
import { sha256 } from "../../src/ids/Digest.ts"

const joined = (chunks: ReadonlyArray<Uint8Array>, size: number): Uint8Array => {
  const all = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.length
  }
  return all
}

/** Process-local. */
export const layer = Layer.sync(Blobs, () => {
  const all = new Map<string, Uint8Array>()
  return Blobs.of({
    put: <E, R>(key: BlobKey, content: Stream.Stream<Uint8Array, E, R>) =>
      Effect.gen(function*() {
        const name = nameOf(key)
        if (key.size > MAX_BLOB_BYTES) return yield* new BlobTooLarge()
        if (all.has(name)) return
        const chunks: Array<Uint8Array> = []
        let bytes = 0
        yield* Stream.runForEach(content, (chunk) => {
          bytes += chunk.length
          chunks.push(chunk.slice())
          return bytes > key.size ? Effect.fail(new BlobMismatch()) : Effect.void
        })
        const whole = joined(chunks, bytes)
        if (bytes !== key.size || sha256(whole) !== key.sha256) return yield* new BlobMismatch()
        all.set(name, whole)
      }),

    get: (key) =>
      Stream.suspend(() => {
        const found = all.get(nameOf(key))
        return found === undefined || found.length !== key.size ? Stream.fail(new BlobNotFound()) : Stream.make(found.slice())
      }),

    remove: (key) => Effect.sync(() => void all.delete(nameOf(key)))
  })
})
