/** `slipway restore`: makes a data folder from a backup. */
import { EmbeddedPostgres } from "@slipway/embedded-postgres/EmbeddedPostgres"
import * as MachineFolder from "@slipway/machine/files/MachineFolder"
import * as DurableFile from "@slipway/machine/node/DurableFile"
import * as Database from "@slipway/postgres/Database"
import * as Dump from "@slipway/postgres/Dump"
import { DatabaseSchema } from "@slipway/postgres/options/DatabaseSchema"
import { Console, Effect, Layer, Schema, Stream } from "effect"
import { Argument, Command } from "effect/cli"
import { mkdir, mkdtemp, readdir, readFile, rename, rm } from "node:fs/promises"
import path from "node:path"
import * as BackupFolder from "../../service/storage/BackupFolder.ts"
import * as Settings from "../../settings/Settings.ts"
import * as Storage from "../../settings/Storage.ts"
import { progress, step } from "../terminal/Progress.ts"

/** Nothing was changed. */
class CannotRestore extends Schema.TaggedError<CannotRestore>()("CannotRestore", { problem: Schema.String }) {
  override get message() {
    return this.problem
  }
}

const MAKING = ".restoring-"
/** Entries that an empty folder may have: those of a file system, and the rest of a killed restore. */
const isNothing = (name: string) => name === "lost+found" || name.startsWith(MAKING)

/** Restores into a new folder within the data folder, then moves its parts to their places, the database last. */
const into = Effect.fnUntraced(function*(from: string, manifest: BackupFolder.Manifest, settings: Settings.Settings) {
  const { dataDir, databaseSchema, postgresAccount } = settings
  const making = yield* Effect.acquireRelease(
    BackupFolder.writing(dataDir, () => mkdtemp(path.join(dataDir, MAKING))),
    (made) => Effect.promise(() => rm(made, { recursive: true, force: true, maxRetries: 3 }))
  )
  const total = manifest.tables.reduce((sum, { rows }) => sum + rows, 0)
  let loaded = 0
  const told = yield* progress
  const rowsOf = new Map(manifest.tables.map((table) => [table.name, table.rows]))
  const fill = Dump.load(manifest, ({ name }) =>
    Stream.tap(BackupFolder.rowsIn(from, { name, rows: rowsOf.get(name) ?? 0 }), (rows) => {
      loaded += rows.length
      return told(() => `${loaded} of ${total} rows`)
    }))
  yield* step(
    "the database is made",
    fill.pipe(
      Effect.provide(
        Layer.unwrap(Effect.map(EmbeddedPostgres, ({ connection }) => Database.layerMigrating(connection))).pipe(
          Layer.provide(EmbeddedPostgres.layer({ dataDir: making, ...postgresAccount === null ? {} : { account: postgresAccount } })),
          Layer.provideMerge(Layer.succeed(DatabaseSchema, databaseSchema))
        )
      )
    ),
    () => `${total} rows`
  )
  yield* BackupFolder.writing(dataDir, async () => {
    if (manifest.key !== null) {
      const key = path.join(making, BackupFolder.KEY)
      await BackupFolder.put(key, await readFile(path.join(from, BackupFolder.KEY)))
      await rename(key, path.join(dataDir, BackupFolder.KEY))
    }
    await DurableFile.sync(dataDir)
    await rename(path.join(making, "postgres"), path.join(dataDir, "postgres"))
    await DurableFile.sync(dataDir)
  })
})

const restoring = Effect.fnUntraced(function*(given: string) {
  const settings = yield* Settings.load
  const { dataDir, databaseUrl, secretsKeyCommand, secretsKeyFile } = settings
  if (databaseUrl !== null) {
    const { name } = Storage.settings.databaseUrl
    return yield* new CannotRestore({
      problem: `This makes a database in a data folder, but ${name} is set: docs/backup.md says how to restore that one.`
    })
  }
  const from = path.resolve(given)
  const manifest = yield* BackupFolder.manifestOf(from)
  yield* Effect.scoped(Effect.gen(function*() {
    yield* BackupFolder.writing(dataDir, () => mkdir(dataDir, { recursive: true }))
    yield* MachineFolder.alone(dataDir)
    const there = yield* BackupFolder.writing(dataDir, () => readdir(dataDir))
    const first = there.find((name) => !isNothing(name))
    if (first !== undefined) {
      return yield* new CannotRestore({
        problem: `The data folder ${dataDir} is not empty: it has ${first}. ` +
          `Restore into an empty one (${Storage.settings.dataDir.name}), and nothing is lost.`
      })
    }
    for (const left of there.filter((name) => name.startsWith(MAKING))) {
      yield* BackupFolder.writing(dataDir, () => rm(path.join(dataDir, left), { recursive: true, force: true, maxRetries: 3 }))
    }
    yield* step("the backup is whole", BackupFolder.verify(from, manifest), () => `of ${manifest.createdAt}, Slipway ${manifest.version}`)
    yield* into(from, manifest, settings)
  }))
  yield* Console.log(
    `\n${dataDir} has the content of the backup. ` +
      "Do not start it while the service that the backup was made of still runs: both would work for the same sandboxes."
  )
  if (manifest.key === null) {
    const place = secretsKeyFile ?? path.join(dataDir, BackupFolder.KEY)
    yield* Console.log(
      "The backup has no key of stored secrets. Before the service starts, " + (secretsKeyCommand === null
        ? `put the one of that time to ${place} (mode 0600).`
        : `see that ${secretsKeyCommand.program} (${Storage.settings.secretsKeyCommand.name}) prints the one of that time.`)
    )
  }
  yield* Console.log(`Start it with: ${Storage.settings.dataDir.name}=${dataDir} slipway serve`)
})

export const restore = Command.make("restore", {
  folder: Argument.String("dir").pipe(Argument.withDescription("Folder that slipway backup made"))
}, ({ folder }) => restoring(folder)).pipe(
  Command.withDescription(
    `Make the data folder ${Storage.settings.dataDir.name}, which must be empty or missing, from a backup. The digests of its files are ` +
      "checked first. A backup of an earlier version is migrated, one of a newer version refused.\n\n" +
      "Sandboxes continue from their last checkpoints; active turns end as after the loss of a machine."
  ),
  Command.withExamples([{
    command: "slipway restore /backups/2026-11-24",
    description: "Into .slipway of this folder"
  }, {
    command: `${Storage.settings.dataDir.name}=/var/lib/slipway slipway restore /backups/2026-11-24`,
    description: "Into a data folder of another name"
  }])
)
