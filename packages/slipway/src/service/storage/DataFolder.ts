/** The data folder of a service: it must be writable, and the service fails without it. */
import { codeOf, codeTextOf } from "@slipway/domain/files/rules/SystemError"
import { Effect, Schedule, Schema } from "effect"
import { randomUUID } from "node:crypto"
import { access, constants, mkdir, open, rm, stat } from "node:fs/promises"
import path from "node:path"
import * as Storage from "../../settings/Storage.ts"

const reasons: Readonly<Record<string, string>> = {
  EROFS: "its disk is read-only",
  EACCES: "the user of this process may not",
  EPERM: "the user of this process may not",
  ENOTDIR: "there is a file of that name",
  EEXIST: "there is a file of that name"
}

/** The folder cannot be written to. */
class DataFolderNotWritable extends Schema.TaggedError<DataFolderNotWritable>()("DataFolderNotWritable", {
  dataDir: Schema.String,
  /** The error code of the system. */
  code: Schema.String
}) {
  override get message() {
    const reason = reasons[this.code] ?? this.code
    const { name } = Storage.settings.dataDir
    return `The data folder ${this.dataDir} cannot be written to: ${reason}. Mend that, or choose another with ${name}.`
  }
}

/** The file that prevents making the folder. Node reports ENOENT for every folder that it cannot make. */
const obstacle = async (folder: string): Promise<string> => {
  const code = await access(folder, constants.W_OK).then(() => "ENOENT", codeTextOf)
  return code === "ENOENT" && path.dirname(folder) !== folder ? obstacle(path.dirname(folder)) : code
}

/**
 * Makes the folder if it is missing, and a temporary file in it. A full disk is accepted, because a worker frees space by removing
 * finished sandboxes.
 */
export const writable = (dataDir: string) =>
  Effect.tryPromise({
    try: async () => {
      await mkdir(dataDir, { recursive: true })
      const file = path.join(dataDir, `.writable-${randomUUID()}`)
      await (await open(file, "wx")).close()
      await rm(file)
    },
    catch: codeTextOf
  }).pipe(
    Effect.catchIf((code) => code === "ENOENT", () => Effect.flatMap(Effect.promise(() => obstacle(dataDir)), Effect.fail)),
    Effect.catch((code) => code === "ENOSPC" ? Effect.void : new DataFolderNotWritable({ dataDir, code }))
  )

/** The folder was removed or replaced while the service ran. */
class DataFolderGone extends Schema.TaggedError<DataFolderGone>()("DataFolderGone", { dataDir: Schema.String }) {
  override get message() {
    return `The data folder ${this.dataDir} was removed or replaced. The service stops. ` +
      "Put it back, or start the service again to begin with an empty one."
  }
}

const identityOf = (folder: string) =>
  Effect.promise(() =>
    stat(folder).then(({ dev, ino }) => `${dev}:${ino}`, (error: unknown) => codeOf(error) === "ENOENT" ? null : undefined)
  )

/** Returns an effect that fails when the folder is no longer the same. Other failures of the check are ignored. */
export const watch = Effect.fnUntraced(function*(dataDir: string) {
  const first = yield* identityOf(dataDir)
  return Effect.flatMap(
    identityOf(dataDir),
    (now) => now === undefined || now === first ? Effect.void : Effect.fail(new DataFolderGone({ dataDir }))
  ).pipe(
    Effect.repeat(Schedule.spaced("1 second")),
    Effect.andThen(Effect.never)
  )
})
