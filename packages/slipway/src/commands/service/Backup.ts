/** `slipway backup`: saves the data of an embedded service that cannot be recreated, while it runs. */
import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import { EmbeddedPostgres } from "@slipway/embedded-postgres/EmbeddedPostgres"
import * as DurableFile from "@slipway/machine/node/DurableFile"
import * as Database from "@slipway/postgres/Database"
import * as Dump from "@slipway/postgres/Dump"
import { DatabaseSchema } from "@slipway/postgres/options/DatabaseSchema"
import { Console, DateTime, Effect, Layer, Schema, Stream } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { chmod, lstat, mkdir, mkdtemp, readFile, realpath, rename, rm } from "node:fs/promises"
import path from "node:path"
import manifest from "../../../package.json" with { type: "json" }
import * as RunningServices from "../../service/RunningServices.ts"
import * as BackupFolder from "../../service/storage/BackupFolder.ts"
import * as BlobPlace from "../../service/storage/BlobPlace.ts"
import * as SecretsKeySource from "../../service/storage/SecretsKeySource.ts"
import * as Settings from "../../settings/Settings.ts"
import * as Storage from "../../settings/Storage.ts"
import { progress, step } from "../terminal/Progress.ts"

/** Nothing was written. */
class CannotBackUp extends Schema.TaggedError<CannotBackUp>()("CannotBackUp", { problem: Schema.String }) {
  override get message() {
    return this.problem
  }
}

const mebibytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`

/** Makes a new folder beside `wanted` and renames it when `use` has succeeded. A failure removes it. */
const atomically = <A, E, R>(wanted: string, use: (folder: string) => Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    BackupFolder.writing(wanted, () => mkdtemp(`${wanted}.partial-`)),
    (folder) =>
      Effect.tap(use(folder), () =>
        BackupFolder.writing(wanted, async () => {
          await rename(folder, wanted)
          await DurableFile.sync(path.dirname(wanted))
        })),
    (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
  )

/** The key file, unless the operator keeps it elsewhere. */
const keyOf = (settings: Settings.Settings, withoutKey: boolean) =>
  withoutKey || SecretsKeySource.elsewhere(settings) !== null
    ? Effect.succeed(null)
    : BackupFolder.writing(settings.dataDir, () => readFile(path.join(settings.dataDir, BackupFolder.KEY)).catch(ifAbsent(null)))

const read = Effect.fnUntraced(function*(folder: string) {
  const tables: Array<BackupFolder.Manifest["tables"][number]> = []
  const told = yield* progress
  const read = yield* Dump.read((table, rows) =>
    Effect.gen(function*() {
      let count = 0
      const counted = Stream.tap(rows, (some) => {
        count += some.length
        return told(() => `${table.name}: ${count} rows`)
      })
      tables.push({ ...table, ...yield* BackupFolder.putRows(BackupFolder.tableFile(folder, table.name), counted) })
    })
  )
  return { ...read, tables }
})

const make = Effect.fnUntraced(function*(at: string, withoutKey: boolean) {
  const given = yield* Settings.load
  if (given.databaseUrl !== null) {
    return yield* new CannotBackUp({
      problem: "This is for the database in a data folder. Back up the database that " +
        `${Storage.settings.databaseUrl.name} names with pg_dump, or by archiving its log: docs/backup.md.`
    })
  }
  const settings = yield* RunningServices.find(given)
  const { dataDir, databaseSchema, postgresAccount } = settings
  const beside = path.dirname(path.resolve(at))
  const parent = yield* Effect.tryPromise({
    try: () => realpath(beside),
    catch: () => new CannotBackUp({ problem: `There is no folder ${beside} to put the backup in.` })
  })
  const wanted = path.join(parent, path.basename(path.resolve(at)))
  const isThere = lstat(wanted).then(() => true, ifAbsent(false))
  if (yield* Effect.promise(() => isThere)) {
    return yield* new CannotBackUp({ problem: `${wanted} exists already. A backup is a new folder: nothing is overwritten.` })
  }
  const data = yield* Effect.promise(() => realpath(dataDir))
  if (`${wanted}/`.startsWith(`${data}/`)) {
    return yield* new CannotBackUp({ problem: `${wanted} is in the data folder ${data}: it would be lost together with it.` })
  }
  const createdAt = DateTime.formatIso(yield* DateTime.now)
  const made = yield* atomically(wanted, (folder) =>
    Effect.gen(function*() {
      yield* BackupFolder.writing(wanted, async () => {
        await chmod(folder, 0o700)
        await mkdir(path.join(folder, "tables"), { mode: 0o700 })
      })
      const { tables, ...rest } = yield* step(
        "the database is read, as of one moment",
        // A backup does not migrate the schema of an earlier version.
        read(folder).pipe(
          Effect.provide(
            Layer.unwrap(Effect.map(EmbeddedPostgres, ({ connection }) => Database.layerMigrating(connection))).pipe(
              Layer.provide(
                EmbeddedPostgres.layerConnectOrStart({ dataDir, ...postgresAccount === null ? {} : { account: postgresAccount } })
              ),
              Layer.provideMerge(Layer.succeed(DatabaseSchema, databaseSchema))
            )
          )
        ),
        ({ tables }) =>
          `${tables.reduce((sum, { rows }) => sum + rows, 0)} rows, ${mebibytes(tables.reduce((sum, { bytes }) => sum + bytes, 0))}`
      )
      const bytes = yield* keyOf(settings, withoutKey)
      const keyFile = path.join(folder, BackupFolder.KEY)
      const key = bytes === null ? null : yield* BackupFolder.writing(wanted, () => BackupFolder.put(keyFile, bytes))
      const whole: BackupFolder.Manifest = { format: BackupFolder.FORMAT, version: manifest.version, createdAt, ...rest, tables, key }
      yield* BackupFolder.writing(wanted, () => BackupFolder.finish(folder, whole))
      return whole
    }))
  yield* tell(settings, wanted, made)
})

const tell = Effect.fnUntraced(function*(
  settings: Settings.Settings,
  at: string,
  { checkpointsElsewhere, key, unsaved }: BackupFolder.Manifest
) {
  const { blobs, checkpoints } = settings
  const keyElsewhere = SecretsKeySource.elsewhere(settings)
  yield* Console.log(`\nThe backup is in ${at}, for your account alone.`)
  yield* Console.log(
    key !== null
      ? "It has the key of stored secrets: a person with the backup can read them."
      : keyElsewhere === null
      ? "It has no key of stored secrets: keep secrets.key of the data folder elsewhere. Without it they are lost."
      : `The key of stored secrets is not in it: keep ${keyElsewhere} elsewhere. Without it they are lost.`
  )
  if (unsaved.length > 0) {
    yield* Console.log(
      `It has the last checkpoint of these sandboxes, without their work since: ${unsaved.slice(0, 20).join(", ")}` +
        `${unsaved.length > 20 ? ` and ${unsaved.length - 20} more` : ""}.`
    )
  }
  if (blobs.kind !== "database") {
    const at = `${BlobPlace.nameOf({ blobs })} (${Storage.settings.blobs.name})`
    yield* Console.log(`Files, and checkpoints that are kept with them, are ${at} and not in it: copy them now.`)
  }
  if (checkpointsElsewhere > 0) {
    yield* Console.log(
      `${checkpointsElsewhere} checkpoints are in ${checkpoints.folder ?? "a folder"} (${Storage.settings.checkpoints.name}) ` +
        "and not in it: copy that folder now."
    )
  }
})

export const backup = Command.make("backup", {
  folder: Argument.String("dir").pipe(Argument.withDescription("New folder to make")),
  withoutKey: Flag.Boolean("without-key").pipe(
    Flag.withDescription("Leave out the key of stored secrets; keep it elsewhere"),
    Flag.withDefault(false)
  )
}, ({ folder, withoutKey }) => make(folder, withoutKey)).pipe(
  Command.withDescription(
    "Write a consistent backup of a data folder into a new folder: the database with all sandboxes, their logs and checkpoints, and the " +
      "key of stored secrets. The service may run.\n\n" +
      "Left out: clones, caches, installed agents, and the work of sandboxes since their last checkpoint. " +
      `Back up a database at ${Storage.settings.databaseUrl.name} with its own programs.`
  ),
  Command.withExamples([{ command: "slipway backup /backups/2026-11-24", description: "Everything, also while the service runs" }, {
    command: "slipway backup /backups/2026-11-24 --without-key",
    description: "Without the key of stored secrets"
  }])
)
