/** The worker's record of a tree in another machine: a file in its repository, as `TreesInMachine` describes. */
import { replaceFile } from "@slipway/git/RepositoryLayout"
import * as DurableFile from "@slipway/machine/node/DurableFile"
import { textIn } from "@slipway/machine/node/IsThere"
import { Effect, Option, Schema } from "effect"
import { readdir } from "node:fs/promises"
import { join } from "node:path"

const Made = Schema.Struct({
  /** The name of the site that the tree was made on. No other tree has it, and no later tree in the same place. */
  made: Schema.String,
  /** Empty: unknown. */
  kernel: Schema.String
})
const MadeFile = Schema.fromJsonString(Made)

const recordOf = (gitDir: string): string => join(gitDir, "machine")

const read = (gitDir: string): Effect.Effect<Option.Option<typeof Made.Type>> =>
  Effect.promise(() => textIn(recordOf(gitDir), "")).pipe(Effect.map(Schema.decodeOption(MadeFile)))

export const write = (gitDir: string, record: typeof Made.Type): Effect.Effect<void> =>
  Effect.promise(() => replaceFile(recordOf(gitDir), Schema.encodeSync(MadeFile)(record)))

/** Writes all files of the folder to the disk: after a loss of power a repository is complete or missing. */
export const flush = async (folder: string): Promise<void> => {
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    if (entry.isFile() || entry.isDirectory()) await DurableFile.sync(join(entry.parentPath, entry.name))
  }
  await DurableFile.sync(folder)
}

/** The records of these repositories, in the same order. */
export const readAll = (gitDirs: ReadonlyArray<string>) =>
  Effect.forEach(gitDirs, (gitDir) => Effect.map(read(gitDir), Option.map((record) => ({ gitDir, ...record }))))
