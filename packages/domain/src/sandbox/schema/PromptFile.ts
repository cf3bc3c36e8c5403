/** Files that people add to prompts (docs/decisions/21), as they are sent and stored. */
import * as Schema from "effect/Schema"
import { Counter } from "../../text/Text.ts"
import { timestamp } from "../../time/Timestamp.ts"

/** Files of one message. */
export const MAX_FILES = 10

/** The id of an uploaded file. */
export const FileId = Schema.String.check(Schema.isPattern(/^file_[a-z2-9]{12}$/u))

/** A file that a request adds to its prompt. */
const FileRef = Schema.Struct({
  id: FileId.annotateKey({ description: "The id that the upload returned." })
}).annotate({ identifier: "FileRef" })

/** The files of a creation, a fork or a message. */
export const FileRefs = Schema.Array(FileRef).check(
  Schema.isMaxLength(MAX_FILES),
  Schema.makeFilter((files: ReadonlyArray<{ readonly id: string }>) => new Set(files.map(({ id }) => id)).size === files.length, {
    expected: "different files",
    toJsonSchema: () => [{}, true]
  })
)
export type FileRefs = typeof FileRefs.Type

/** A file of a prompt, as events and messages name it. */
export const AttachedFile = Schema.Struct({
  id: Schema.String.annotateKey({ description: "Id of the file." }),
  name: Schema.String.annotateKey({ description: "Its name, without a folder." }),
  mediaType: Schema.String.annotateKey({
    description: "`image/png`, `image/jpeg`, `image/gif` or `image/webp` if its bytes are such an image; else what the upload said."
  }),
  size: Counter.annotateKey({ description: "Bytes." })
}).annotate({ identifier: "AttachedFile" })
export type AttachedFile = typeof AttachedFile.Type

/** An uploaded file. */
export const PromptFile = Schema.Struct({
  id: FileId.annotateKey({ description: "Id of the file." }),
  object: Schema.Literal("file").annotateKey({ description: "Always `file`." }),
  name: AttachedFile.fields.name,
  mediaType: AttachedFile.fields.mediaType,
  size: AttachedFile.fields.size,
  sha256: Schema.String.annotateKey({ description: "SHA-256 of its bytes, in hex." }),
  createdAt: timestamp("Time of the upload."),
  expiresAt: Schema.NullOr(timestamp("Time when it is deleted unless a prompt uses it before.")).annotateKey({
    description: "Time when it is deleted unless a prompt uses it before; `null`: it is kept for as long as the events of its sandbox."
  })
}).annotate({ identifier: "PromptFile" })
export type PromptFile = typeof PromptFile.Type

/** The file as events and messages name it. */
export const attached = ({ id, mediaType, name, size }: AttachedFile): AttachedFile => ({ id, name, mediaType, size })
