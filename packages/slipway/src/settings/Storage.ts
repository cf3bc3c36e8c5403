/** The places of the service's data. */
import * as ConnectionUrl from "@slipway/postgres/connection/ConnectionUrl"
import * as DatabaseSchema from "@slipway/postgres/options/DatabaseSchema"
import * as Effect from "effect/Effect"
import path from "node:path"
import * as Defaults from "./Defaults.ts"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  dataDir: Setting.withDefault({
    ...Defaults.dataDir,
    type: Type.folder,
    about: "Folder for the embedded database, the clones and the working trees.",
    role: "all"
  }),
  databaseUrl: Setting.optional({
    ...Defaults.databaseUrl,
    type: Type.redacted({
      ...Type.parsed("a postgres:// address", (value) => ConnectionUrl.problemOf(value) === null),
      problemOf: ConnectionUrl.problemOf
    }),
    about: "Postgres 15 or newer, as postgres://user@host/database. sslmode, sslrootcert, sslcert and sslkey as for psql: " +
      "docs/operating/database.md. Without it, an embedded Postgres in the data folder.",
    role: "all",
    secret: true
  }),
  databaseSchema: Setting.withDefault({
    name: "SLIPWAY_DATABASE_SCHEMA",
    type: Type.pattern("a name of lower case letters, digits and _ that Postgres does not reserve", DatabaseSchema.PATTERN),
    default: "slipway",
    about: "The schema of the database that has Slipway's tables. Made at the first start. The same for every process on one database.",
    role: "all"
  }),
  startup: Setting.withDefault({
    name: "SLIPWAY_STARTUP_SECONDS",
    type: Type.seconds(0, 86_400),
    default: "60",
    about: "How long a start waits for the Postgres at DATABASE_URL.",
    role: "all"
  }),
  checkpoints: Setting.withDefault({
    name: "SLIPWAY_CHECKPOINTS",
    type: Type.checkpointPlaces,
    default: "database",
    about: "Place of checkpoints: the database, or a folder (file:/path) that every process on that database has under this path and " +
      "Slipway does not make. database,file:/path keeps new ones in the database and reads those in the folder.",
    role: "all"
  }),
  cacheBytes: Setting.optional({
    name: "SLIPWAY_CACHE_MIB",
    type: Type.mebibytes(0, 100_000_000),
    about: "Size of a worker's caches of setups; the least recently used are removed first. 0 keeps none. Without it, a tenth of the " +
      "disk of the data folder, at most 20480 MiB.",
    role: "worker"
  }),
  secretsKeyFile: Setting.optional({
    name: "SLIPWAY_SECRETS_KEY_FILE",
    type: Type.text("a file"),
    about: "File with the key of stored secrets: 32 bytes in base64, or several lines, of which the first encrypts. The same for every " +
      "process on one database. Without it, secrets.key in the data folder, made at the first start, or with DATABASE_URL for the " +
      "first webhook: secrets of repositories need a given key.",
    role: "all"
  }),
  postgresAccount: Setting.optional({
    name: "SLIPWAY_PG_USER",
    type: Type.text("the name of an account"),
    about: "Account of the embedded Postgres if this process is root. Without it, slipway or postgres, made if missing.",
    role: "all"
  })
}

/**
 * Paths are absolute. `secretsKeyFile: null`: in the data folder that is finally used. `dataDirIsSet`: set explicitly; otherwise it is
 * the default in the working directory.
 */
export const load = Effect.gen(function*() {
  const { secretsKeyFile, ...loaded } = yield* Setting.values(settings)
  return {
    ...loaded,
    secretsKeyFile: secretsKeyFile === null ? null : path.resolve(loaded.dataDir, secretsKeyFile),
    dataDirIsSet: yield* Setting.isSet(settings.dataDir)
  }
})
