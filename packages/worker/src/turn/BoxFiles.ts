/**
 * The files of a sandbox's prompts in its box: read-only in `$HOME/files`, written by a process of the box, which can do there no more than
 * the agent (docs/decisions/21).
 */
import { Blobs } from "@slipway/domain/files/ports/Blobs"
import { boxNames } from "@slipway/domain/files/rules/UploadedFile"
import { PromptFiles, type StoredFile } from "@slipway/domain/sandbox/ports/PromptFiles"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { AttachedFile } from "@slipway/domain/sandbox/schema/PromptFile"
import { Effect, Option, Schema, Stream } from "effect"
import { type LeasedSandbox, untilAvailable } from "../shared/LeasedSandbox.ts"

const FOLDER = "files"

/** The most time for one file. */
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

/** Arguments: the folder, name and size. The content is the standard input. */
const WRITE = `
mkdir -p -- "$1" && cd -- "$1" || exit
part=.part.$$
rm -f -- "$part"
if cat > "$part" && [ "$(wc -c < "$part")" -eq "$3" ] && chmod 0444 "$part" && mv -f -- "$part" "$2"; then exit 0; fi
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

interface Placed extends StoredFile {
  readonly boxName: string
}

const write = Effect.fnUntraced(
  function*(box: Box, folder: string, file: Placed) {
    const { boxName, grantId, id, name, sha256, size } = file
    const blobs = yield* Effect.serviceOption(Blobs)
    if (Option.isNone(blobs)) return yield* new FileNotGiven({ name, reason: "this worker has no store of files." })
    const process = yield* box.spawn(command(WRITE, [folder, boxName, String(size)]))
    yield* blobs.value.get({ grantId, holder: id, sha256, size }).pipe(Stream.runForEach((bytes) => process.write(bytes)))
    yield* process.endInput
    if ((yield* process.exited).code !== 0) {
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

/** Puts those of the sandbox's files into the box that are not there, and returns the path of each by its id. */
const place = Effect.fn("BoxFiles.place")(function*({ id }: Pick<LeasedSandbox, "id">, box: Box) {
  const store = yield* Effect.serviceOption(PromptFiles)
  const all = Option.isNone(store) ? [] : yield* untilAvailable(store.value.ofSandbox(id))
  const paths = new Map<string, string>()
  if (all.length === 0) return paths
  const folder = `${box.home}/${FOLDER}`
  const names = boxNames(all)
  const files = all.map((file) => ({ ...file, boxName: names.get(file.id) ?? file.name }))
  const absent = yield* Effect.catchTag(missing(box, folder, files), "HostError", () => Effect.succeed(files))
  yield* Effect.forEach(absent, (file) => write(box, folder, file), { discard: true })
  for (const { boxName, id } of files) paths.set(id, `${folder}/${boxName}`)
  return paths
})

/** Puts all files into the box of an agent that starts. A file that cannot be put there fails the turn that names it, not the start. */
export const placeAll = Effect.fnUntraced(function*(leased: LeasedSandbox, box: Box) {
  const { sandbox: { files, origin } } = yield* leased.view
  // A fork has those of its origin.
  if (files === undefined && origin === null) return
  yield* Effect.catchTag(place(leased, box), "FileNotGiven", (error) => Effect.logWarning("files of earlier prompts are missing", error))
})

const described = ({ mediaType, size }: AttachedFile) => `${mediaType}, ${size} bytes`

/** The prompt for the agent: with the paths of its files, which are in the box then. */
export const give = Effect.fn("BoxFiles.give")(function*(
  leased: LeasedSandbox,
  box: Box,
  text: string,
  files: ReadonlyArray<AttachedFile> = []
) {
  if (files.length === 0) return text
  const paths = yield* place(leased, box)
  const lines: Array<string> = []
  for (const file of files) {
    const path = paths.get(file.id)
    if (path === undefined) return yield* new FileNotGiven({ name: file.name, reason: "it was deleted." })
    lines.push(`- ${path} (${described(file)})`)
  }
  return `${text}\n\nFiles of this message, read-only:\n${lines.join("\n")}`
})
