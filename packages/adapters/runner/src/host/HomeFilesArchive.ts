/** Files for a home, as the archive that a runner writes. */
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { areApart, isPath, MAXIMUM_PIECE_BYTES, Writer } from "@slipway/machine/home/HomeArchive"
import { Effect } from "effect"

const refused = (detail: string) => new HostError({ operation: "spawn", detail, retryable: false, ofSandbox: true })

/** Each file is all that is at its path. Fails for what are no paths below a home, or more than one start has. */
export const of = (files: Readonly<Record<string, string>>): Effect.Effect<ReadonlyArray<Uint8Array>, HostError> =>
  Effect.suspend(() => {
    const paths = Object.keys(files)
    const wrong = paths.find((path) => !isPath(path))
    if (wrong !== undefined) return Effect.fail(refused(`${JSON.stringify(wrong)} is not a path below the home.`))
    if (!areApart(paths)) return Effect.fail(refused("A file of the home would lie in another one."))
    const writer = new Writer()
    const bytes: Array<Uint8Array> = [writer.begin()]
    for (const [path, text] of Object.entries(files)) {
      bytes.push(writer.area(path), writer.file(path))
      const content = Buffer.from(text)
      for (let start = 0; start < content.length; start += MAXIMUM_PIECE_BYTES) {
        bytes.push(writer.piece(content.subarray(start, start + MAXIMUM_PIECE_BYTES)))
      }
    }
    return Effect.succeed([...bytes, writer.end()])
  })

/** The archive of these paths of a home that does not exist. */
export const nothing = (paths: ReadonlyArray<string>): ReadonlyArray<Uint8Array> => {
  const writer = new Writer()
  return [writer.begin(), ...paths.map((path) => writer.area(path)), writer.end()]
}
