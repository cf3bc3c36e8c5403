/**
 * The files of a sandbox's prompts in its box: read-only in `$HOME/files`, written by a process of the box, which can do there no more than
 * the agent (docs/decisions/21).
 */
import { Blobs } from "@slipway/domain/files/ports/Blobs"
import { boxNames } from "@slipway/domain/files/rules/UploadedFile"
import { IMAGE_TYPES } from "@slipway/domain/models/rules/Images"
import type { PromptImage } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { PromptFiles, type StoredFile } from "@slipway/domain/sandbox/ports/PromptFiles"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { AttachedFile } from "@slipway/domain/sandbox/schema/PromptFile"
import { Effect, Option, Schema, Stream } from "effect"
import { type LeasedSandbox, untilAvailable } from "../shared/LeasedSandbox.ts"

const FOLDER = "files"

/** The most time for one file, and for looking which are there. */
const WITHIN = "2 minutes"

/** A file could not be put into the box. */
export class FileNotGiven extends Schema.TaggedError<FileNotGiven>()("FileNotGiven", { name: Schema.String, reason: Schema.String }) {
  override get message() {
    return `The file ${this.name} could not be put into the sandbox: ${this.reason}`
  }
}

/** Arguments: the folder, then name and size of each file. Prints the names of those that are missing. */
const FIND = `
folder=$1; shift
while [ $# -gt 1 ]; do
  if [ -L "$folder/$1" ] || [ ! -f "$folder/$1" ] || [ "$(wc -c < "$folder/$1")" -ne "$2" ]; then echo "$1"; fi
  shift 2
done`

/** Arguments: the folder, name and size. The content is the standard input. A folder with the name of the file makes room for it. */
const WRITE = `
mkdir -p -- "$1" && cd -- "$1" || exit
part=.part.$$
rm -f -- "$part"
if cat > "$part" && [ "$(wc -c < "$part")" -eq "$3" ] && chmod 0444 "$part"; then
  [ ! -d "$2" ] || rm -rf -- "$2"
  mv -f -- "$part" "$2" && exit 0
fi
rm -f -- "$part"
exit 1`

const command = (script: string, args: ReadonlyArray<string>) => ({
  command: "/bin/sh",
  args: ["-c", script, "slipway-files", ...args],
  env: {},
  isOffline: true
})

const missing = Effect.fnUntraced(function*(box: Box, folder: string, files: ReadonlyArray<Placed>) {
  const process = yield* box.spawn(command(FIND, [folder, ...files.flatMap(({ boxName, size }) => [boxName, String(size)])]))
  yield* process.endInput
  const found = new Set((yield* Stream.mkString(Stream.decodeText(process.stdout))).split("\n"))
  return (yield* process.exited).code === 0 ? files.filter(({ boxName }) => found.has(boxName)) : files
}, Effect.scoped)

/** Those that are not there; all of them if the box does not say. */
const absentOf = (box: Box, folder: string, files: ReadonlyArray<Placed>) =>
  missing(box, folder, files).pipe(
    Effect.timeoutOrElse({ duration: WITHIN, orElse: () => Effect.succeed(files) }),
    Effect.catchTag("HostError", () => Effect.succeed(files))
  )

interface Placed extends StoredFile {
  readonly boxName: string
}

const write = Effect.fnUntraced(
  function*(box: Box, folder: string, file: Placed) {
    const { boxName, grantId, id, name, sha256, size } = file
    const blobs = yield* Effect.serviceOption(Blobs)
    if (Option.isNone(blobs)) return yield* new FileNotGiven({ name, reason: "this worker has no store of files." })
    const process = yield* box.spawn(command(WRITE, [folder, boxName, String(size)]))
    const content = blobs.value.get({ grantId, holder: id, sha256, size })
    const given = yield* Effect.exit(Stream.runForEach(content, (bytes) => process.write(bytes)))
    yield* process.endInput
    // It deletes an incomplete file before it exits.
    const { code } = yield* process.exited
    yield* given
    if (code !== 0) {
      return yield* new FileNotGiven({ name, reason: "it could not be written there. The disk may be full." })
    }
  },
  Effect.scoped,
  (writing, _box, _folder, { name }) =>
    writing.pipe(
      Effect.timeoutOrElse({ duration: WITHIN, orElse: () => new FileNotGiven({ name, reason: "it took too long." }) }),
      Effect.catchTags({
        BlobNotFound: () => new FileNotGiven({ name, reason: "it was deleted." }),
        HostError: ({ detail }) => new FileNotGiven({ name, reason: detail })
      }),
      untilAvailable
    )
)

/** Puts those of the sandbox's files into the box that are not there. By their ids: all files, or why one could not be put there. */
const place = Effect.fn("BoxFiles.place")(function*({ id }: Pick<LeasedSandbox, "id">, box: Box) {
  const store = yield* Effect.serviceOption(PromptFiles)
  const all = Option.isNone(store) ? [] : yield* untilAvailable(store.value.ofSandbox(id))
  const placed = new Map<string, Given | FileNotGiven>()
  if (all.length === 0) return placed
  const folder = `${box.home}/${FOLDER}`
  const names = boxNames(all)
  const files = all.map((file) => ({ ...file, boxName: names.get(file.id) ?? file.name }))
  const absent = yield* absentOf(box, folder, files)
  for (const file of files) placed.set(file.id, { file, path: `${folder}/${file.boxName}` })
  for (const file of absent) {
    const refused = yield* Effect.match(write(box, folder, file), { onFailure: (error) => error, onSuccess: () => null })
    if (refused !== null) placed.set(file.id, refused)
  }
  return placed
})

/** Puts all files into the box of an agent that starts. A file that cannot be put there fails the turn that names it, not the start. */
export const placeAll = Effect.fnUntraced(function*(leased: LeasedSandbox, box: Box) {
  const { sandbox: { files, origin } } = yield* leased.view
  // A fork has those of its origin.
  if (files === undefined && origin === null) return
  for (const file of (yield* place(leased, box)).values()) {
    if (file instanceof FileNotGiven) yield* Effect.logWarning("a file of an earlier prompt is missing", file)
  }
})

/** An image with more bytes is a file only: providers refuse it, and agents can make it smaller. */
const MAX_IMAGE_BYTES = 5 * 1024 * 1024
/** The bytes of the images of one message that the worker holds. */
const MAX_IMAGES_BYTES = 10 * 1024 * 1024

/** The images that the model gets with the text. */
const imagesOf = Effect.fnUntraced(function*(grantId: string, files: ReadonlyArray<Given>) {
  const blobs = yield* Effect.serviceOption(Blobs)
  const images: Array<PromptImage> = []
  let left = MAX_IMAGES_BYTES
  for (const { file: { mediaType, name, size, sha256, id }, path } of files) {
    if (Option.isNone(blobs) || !IMAGE_TYPES.has(mediaType) || size > Math.min(left, MAX_IMAGE_BYTES)) continue
    left -= size
    const parts = yield* Stream.runCollect(blobs.value.get({ grantId, holder: id, sha256, size })).pipe(
      Effect.catchTag("BlobNotFound", () => new FileNotGiven({ name, reason: "it was deleted." })),
      untilAvailable
    )
    images.push({ mediaType, data: Buffer.concat(parts), path })
  }
  return images
})

interface Given {
  readonly file: StoredFile
  readonly path: string
}

const described = ({ mediaType, size }: AttachedFile) => `${mediaType}, ${size} bytes`

/** The prompt for the agent: with the paths of its files, which are in the box then, and the images for the model. */
export const give = Effect.fn("BoxFiles.give")(function*(
  leased: LeasedSandbox,
  box: Box,
  text: string,
  files: ReadonlyArray<AttachedFile> = []
) {
  if (files.length === 0) return { text, images: [] }
  const placed = yield* place(leased, box)
  const given: Array<Given> = []
  for (const { id, name } of files) {
    const found = placed.get(id)
    if (found === undefined) return yield* new FileNotGiven({ name, reason: "it was deleted." })
    if (found instanceof FileNotGiven) return yield* found
    given.push(found)
  }
  const { sandbox: { grantId } } = yield* leased.view
  const lines = given.map(({ file, path }) => `- ${path} (${described(file)})`)
  return { text: `${text}\n\nFiles of this message, read-only:\n${lines.join("\n")}`, images: yield* imagesOf(grantId, given) }
})
