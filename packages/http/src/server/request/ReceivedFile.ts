/**
 * A file of a request, received into a temporary file: its size and its SHA-256 are known only at its end, and no more than a chunk of it
 * is in memory. Nothing in it is decoded.
 */
import { HEAD_BYTES, MAX_FILE_BYTES } from "@slipway/domain/files/rules/UploadedFile"
import { type Received, UploadTooLarge } from "@slipway/domain/files/usecases/Uploads"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Effect, Stream } from "effect"
import { createHash } from "node:crypto"
import { createReadStream } from "node:fs"
import { mkdtemp, open, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

const attempt = <A>(run: () => Promise<A>) => Effect.tryPromise({ try: run, catch: (cause) => new StoreUnavailable({ cause }) })

/** A folder of this file alone, removed with the scope. */
const folder = Effect.acquireRelease(
  attempt(() => mkdtemp(join(tmpdir(), "slipway-upload-"))),
  (path) => Effect.ignore(attempt(() => rm(path, { recursive: true, force: true })))
)

/** Reads the bytes until their end, or until they are too many. The file is there until the scope closes. */
export const receive = Effect.fn("ReceivedFile.receive")(function*<E>(bytes: Stream.Stream<Uint8Array, E>) {
  const path = join(yield* folder, "content")
  const file = yield* Effect.acquireRelease(attempt(() => open(path, "wx", 0o600)), (file) => Effect.ignore(attempt(() => file.close())))
  const hash = createHash("sha256")
  let size = 0
  let head = new Uint8Array(0)
  yield* Stream.runForEach(bytes, (chunk): Effect.Effect<void, StoreUnavailable | UploadTooLarge> => {
    size += chunk.length
    if (size > MAX_FILE_BYTES) return Effect.fail(new UploadTooLarge())
    if (head.length < HEAD_BYTES) head = new Uint8Array([...head, ...chunk.subarray(0, HEAD_BYTES)])
    hash.update(chunk)
    return attempt(() => file.appendFile(chunk))
  })
  const content = Stream.suspend(() =>
    Stream.fromAsyncIterable<Uint8Array, StoreUnavailable>(createReadStream(path), (cause) => new StoreUnavailable({ cause }))
  )
  return { size, sha256: hash.digest("hex"), head, content } satisfies Omit<Received, "mediaType" | "name">
})
