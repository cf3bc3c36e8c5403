/** `Blobs` in an object store with the API of S3, such as AWS, MinIO or R2: an object for each blob. */
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
import { Cause, type Duration, Effect, Exit, Layer, Stream } from "effect"
import { createHash } from "node:crypto"
import * as S3Client from "./S3Client.ts"

/** A blob of at most so many bytes is held in memory while it is sent, so that it can be sent again. */
const HELD_BYTES = 8 * 2 ** 20

/** How long the next bytes of an answer are waited for. */
const NEXT_BYTES: Duration.Input = "30 seconds"

const sha256 = () => createHash("sha256")

const joined = (chunks: ReadonlyArray<Uint8Array>, size: number): Uint8Array => {
  const all = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.length
  }
  return all
}

const cut = (cause: unknown) => new StoreUnavailable({ cause })

/** The bytes of an answer. */
const bytesOf = (response: Response): Stream.Stream<Uint8Array, StoreUnavailable> => {
  const { body } = response
  if (body === null) return Stream.empty
  const reader = Effect.acquireRelease(
    Effect.sync(() => body.getReader()),
    (reader) => Effect.promise(() => reader.cancel().catch(() => undefined))
  )
  return Stream.unwrap(
    Effect.map(reader, (reader) =>
      Stream.unfold(0, () =>
        Effect.tryPromise({ try: () => reader.read(), catch: cut }).pipe(
          Effect.timeoutOrElse({ duration: NEXT_BYTES, orElse: () => Effect.fail(cut(new Error("no more bytes in time"))) }),
          Effect.map(({ done, value }) => done ? undefined : [value as Uint8Array, 0] as const)
        )))
  )
}

const make = (options: S3Client.Options): Blobs["Service"] => {
  const send = S3Client.make(options)

  /** The store checks the SHA-256 too, and that nothing has the name. 412: it is stored already. */
  const store = (key: BlobKey, bytes: Uint8Array | ReadableStream<Uint8Array>) =>
    Effect.flatMap(
      send({
        method: "PUT",
        name: nameOf(key),
        headers: { "if-none-match": "*" },
        body: { bytes, sha256: key.sha256, size: key.size },
        known: [412]
      }),
      S3Client.discard
    )

  /** While the content comes. Its own failure counts, and not that of the request which it breaks. */
  const storeStream = Effect.fnUntraced(function*<E, R>(key: BlobKey, content: Stream.Stream<Uint8Array, E, R>) {
    let broken: Cause.Cause<E> | null = null
    const told = Stream.onError(content, (cause) =>
      Effect.sync(() => {
        broken = cause
      }))
    const exit = yield* Effect.exit(Effect.flatMap(Stream.toReadableStreamEffect(told), (bytes) => store(key, bytes)))
    if (Exit.isFailure(exit) && broken !== null) return yield* Effect.failCause(broken as Cause.Cause<E>)
    return yield* exit
  })

  return Blobs.of({
    put: Effect.fn("Blobs.put")(function*<E, R>(key: BlobKey, content: Stream.Stream<Uint8Array, E, R>) {
      nameOf(key)
      if (key.size > MAX_BLOB_BYTES) return yield* new BlobTooLarge()
      const sound = checked(key, content, sha256, () => new BlobMismatch())
      if (key.size > HELD_BYTES) return yield* storeStream(key, sound)
      const chunks: Array<Uint8Array> = []
      yield* Stream.runForEach(sound, (chunk) => Effect.sync(() => void chunks.push(chunk.slice())))
      return yield* store(key, joined(chunks, key.size))
    }),

    get: (key) =>
      Stream.suspend(() => {
        const answer = Effect.map(
          send({ method: "GET", name: nameOf(key), known: [404] }),
          (response): Stream.Stream<Uint8Array, BlobNotFound | StoreUnavailable> =>
            response.ok ? bytesOf(response) : Stream.fail(new BlobNotFound())
        )
        return checked(key, Stream.unwrap(answer), sha256, () => new BlobNotFound())
      }),

    remove: Effect.fn("Blobs.remove")((key: BlobKey) =>
      Effect.flatMap(send({ method: "DELETE", name: nameOf(key), known: [404] }), S3Client.discard)
    )
  })
}

/** In the bucket of the address, below its prefix. */
export const layer = (options: S3Client.Options): Layer.Layer<Blobs> => Layer.sync(Blobs, () => make(options))
