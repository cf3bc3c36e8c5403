/** Uploads of files for prompts, and reading them (docs/decisions/21). */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type { Principal } from "../../access/schema/Principal.ts"
import { Ids } from "../../ids/Ids.ts"
import { ID_ALPHABET } from "../../ids/SandboxId.ts"
import {
  MAX_UNUSED_BYTES,
  type PromptFileNotFound,
  PromptFiles,
  type StoredFile,
  TooManyUnusedFiles,
  UNUSED_FOR
} from "../../sandbox/ports/PromptFiles.ts"
import type { PromptFile } from "../../sandbox/schema/PromptFile.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { Blobs } from "../ports/Blobs.ts"
import { fileName, MAX_FILE_BYTES, mediaType } from "../rules/UploadedFile.ts"

/** The file has more bytes than a file may have. */
export class UploadTooLarge extends Schema.TaggedError<UploadTooLarge>()("UploadTooLarge", {}) {
  override get message() {
    return `A file may have ${MAX_FILE_BYTES / 1024 / 1024} MiB.`
  }
}

/** A file that was received whole. */
export interface Received {
  readonly name: string
  /** As the upload said it. */
  readonly mediaType: string | undefined
  readonly size: number
  /** In hex. */
  readonly sha256: string
  /** Its first bytes, at least `HEAD_BYTES` if it has as many. */
  readonly head: Uint8Array
  readonly content: Stream.Stream<Uint8Array, StoreUnavailable>
}

const shown = ({ createdAt, id, isUsed, mediaType, name, sha256, size }: StoredFile): PromptFile => ({
  id,
  object: "file",
  name,
  mediaType,
  size,
  sha256,
  createdAt,
  expiresAt: isUsed ? null : DateTime.addDuration(createdAt, UNUSED_FOR)
})

/** The files of the caller's grant. A file of another grant is an unknown one. */
export class Uploads extends Context.Service<Uploads, {
  /** Whether a file with so many bytes may be uploaded now: asked before its bytes are received. `add` decides. */
  admit(by: Principal, size: number): Effect.Effect<void, StoreUnavailable | TooManyUnusedFiles | UploadTooLarge>
  /** Stores a file. If it fails, nothing is there. */
  add(by: Principal, file: Received): Effect.Effect<PromptFile, StoreUnavailable | TooManyUnusedFiles | UploadTooLarge>
  get(by: Principal, id: string): Effect.Effect<PromptFile, PromptFileNotFound | StoreUnavailable>
  /** The file and its bytes. The stream fails if they are deleted meanwhile. */
  open(by: Principal, id: string): Effect.Effect<
    { readonly file: PromptFile; readonly content: Stream.Stream<Uint8Array, Stream.Error<ReturnType<Blobs["Service"]["get"]>>> },
    PromptFileNotFound | StoreUnavailable
  >
}>()("@slipway/domain/Uploads") {
  static readonly layer = Layer.effect(
    Uploads,
    Effect.gen(function*() {
      const files = yield* PromptFiles
      const blobs = yield* Blobs
      const ids = yield* Ids

      const find = Effect.fnUntraced(function*({ grantId }: Principal, id: string) {
        return yield* files.find({ grantId, id }, yield* DateTime.now)
      })

      return Uploads.of({
        admit: Effect.fn("Uploads.admit")(function*({ grantId }, size) {
          if (size > MAX_FILE_BYTES) return yield* new UploadTooLarge()
          const unused = yield* files.unusedBytes(grantId, yield* DateTime.now)
          if (unused + size > MAX_UNUSED_BYTES) return yield* new TooManyUnusedFiles()
        }),
        add: Effect.fn("Uploads.add")(function*({ grantId }, { content, head, mediaType: given, name, sha256, size }) {
          if (size > MAX_FILE_BYTES) return yield* new UploadTooLarge()
          const id = `file_${yield* ids.random(ID_ALPHABET, 12)}`
          const createdAt = yield* DateTime.now
          const file = { id, grantId, name: fileName(name), mediaType: mediaType(given, head), size, sha256, createdAt }
          const key = { grantId, holder: id, sha256, size }
          yield* files.begin(file)
          yield* blobs.put(key, content).pipe(
            // The content was hashed when it was received.
            Effect.catchTags({ BlobMismatch: Effect.die, BlobTooLarge: Effect.die }),
            Effect.andThen(files.complete({ grantId, id })),
            // If that fails too, the purge does it when the file has expired.
            Effect.onError(() => Effect.ignore(Effect.andThen(blobs.remove(key), files.discard({ grantId, id }))))
          )
          return shown({ ...file, isUsed: false })
        }),
        get: Effect.fn("Uploads.get")((by, id) => Effect.map(find(by, id), shown)),
        open: Effect.fn("Uploads.open")(function*(by, id) {
          const file = yield* find(by, id)
          const { grantId, sha256, size } = file
          return { file: shown(file), content: blobs.get({ grantId, holder: id, sha256, size }) }
        })
      })
    })
  )
}
