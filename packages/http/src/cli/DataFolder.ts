/** The data folder of a service that runs: nothing works any more when it is gone. */
import { stat } from "node:fs/promises"
import { Effect, Schedule, Schema } from "effect"

/** Somebody removed or replaced it under the running service. */
export class DataFolderGone extends Schema.TaggedError<DataFolderGone>()("DataFolderGone", { dataDir: Schema.String }) {
  override get message() {
    return `The data folder ${this.dataDir} is gone: somebody removed or replaced it. The service stops. Put it back, or start the service again to begin with an empty one.`
  }
}

const identityOf = (folder: string) =>
  Effect.promise(() => stat(folder).then(({ dev, ino }) => `${dev}:${ino}`, (error: NodeJS.ErrnoException) => error.code === "ENOENT" ? null : undefined))

/** Fails when the folder is no longer the one that was there at first. A look that fails for another reason tells nothing. */
export const untilGone = Effect.fnUntraced(function*(dataDir: string) {
  const first = yield* identityOf(dataDir)
  return yield* Effect.flatMap(identityOf(dataDir), (now) =>
    now === undefined || now === first ? Effect.void : Effect.fail(new DataFolderGone({ dataDir }))).pipe(
    Effect.repeat(Schedule.spaced("1 second")),
    Effect.andThen(Effect.never)
  )
})
