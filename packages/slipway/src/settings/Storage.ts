/** The places of the service's data. */
import * as S3Address from "@slipway/machine/blobs/s3/S3Address"
import * as ConnectionUrl from "@slipway/postgres/connection/ConnectionUrl"
import * as DatabaseSchema from "@slipway/postgres/options/DatabaseSchema"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
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
  checkpoints: Setting.optional({
    name: "SLIPWAY_CHECKPOINTS",
    type: Type.checkpointPlaces,
    about: "Place of new checkpoints: the database, blobs (with the files in SLIPWAY_BLOBS), or a folder (file:/path) that every process " +
      "on that database has under this path and Slipway does not make. With ,file:/path those in that folder are read too. Without it, " +
      "blobs if SLIPWAY_BLOBS is a folder or a bucket, else the database.",
    role: "all"
  }),
  blobs: Setting.withDefault({
    name: "SLIPWAY_BLOBS",
    type: Type.blobPlace,
    default: "database",
    about: "Place of the bytes of files: the database, a folder that every process on that database has under this path and Slipway does " +
      "not make, or a bucket of S3 or a store with its API (docs/operating/blobs.md). The same for every process on one database.",
    role: "all"
  }),
  blobsCredentialsFile: Setting.optional({
    name: "SLIPWAY_BLOBS_CREDENTIALS_FILE",
    type: Type.file,
    about: "File with aws_access_key_id, aws_secret_access_key and perhaps aws_session_token for the bucket in SLIPWAY_BLOBS, as in " +
      "~/.aws/credentials. Read for each request, so that temporary credentials can be replaced. Without it, the variables below.",
    role: "all"
  }),
  awsAccessKeyId: Setting.optional({
    name: "AWS_ACCESS_KEY_ID",
    type: Type.redacted(Type.text("the id of an access key")),
    about: "Id of the access key for the bucket in SLIPWAY_BLOBS.",
    role: "all",
    secret: true
  }),
  awsSecretAccessKey: Setting.optional({
    name: "AWS_SECRET_ACCESS_KEY",
    type: Type.redacted(Type.text("a secret access key")),
    about: "Secret of that access key.",
    role: "all",
    secret: true
  }),
  awsSessionToken: Setting.optional({
    name: "AWS_SESSION_TOKEN",
    type: Type.redacted(Type.text("a session token")),
    about: "Session token of temporary credentials.",
    role: "all",
    secret: true
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
  secretsKeyCommand: Setting.optional({
    name: "SLIPWAY_SECRETS_KEY_COMMAND",
    type: Type.commandLine,
    about: "Program that prints the key of stored secrets, in place of the file: the client of a secret manager or a KMS, such as " +
      "/usr/bin/vault kv get -field=key secret/slipway. Run without a shell, once in each process that needs the key, for at most 20 " +
      "seconds, without the variables of Slipway (docs/operating/secrets.md).",
    role: "all"
  }),
  postgresAccount: Setting.optional({
    name: "SLIPWAY_PG_USER",
    type: Type.text("the name of an account"),
    about: "Account of the embedded Postgres if this process is root. Without it, slipway or postgres, made if missing.",
    role: "all"
  })
}

/** The bucket with what opens it. */
const loadBucket = Effect.gen(function*() {
  const { awsAccessKeyId, awsSecretAccessKey, awsSessionToken, blobs, blobsCredentialsFile } = yield* Setting.values(settings)
  if (blobs.kind !== "s3") return blobs
  if (S3Address.hasCredentials(blobs.address)) {
    const expected = `an address without credentials: set ${settings.awsAccessKeyId.name} and ${settings.awsSecretAccessKey.name}`
    return yield* new Setting.InvalidSetting({ setting: settings.blobs.name, expected })
  }
  const address = S3Address.parse(blobs.address)
  if (blobsCredentialsFile !== null) return { kind: blobs.kind, address, credentials: { file: blobsCredentialsFile } }
  if (awsAccessKeyId === null || awsSecretAccessKey === null) {
    const { name } = awsAccessKeyId === null ? settings.awsAccessKeyId : settings.awsSecretAccessKey
    const expected = `set when ${settings.blobs.name} is s3://…, or ${settings.blobsCredentialsFile.name}`
    return yield* new Setting.InvalidSetting({ setting: name, expected })
  }
  const credentials = {
    accessKeyId: Redacted.value(awsAccessKeyId),
    secretAccessKey: awsSecretAccessKey,
    sessionToken: awsSessionToken
  }
  return { kind: blobs.kind, address, credentials }
})

/**
 * Paths are absolute. `secretsKeyFile: null`: in the data folder that is finally used. `dataDirIsSet`: set explicitly; otherwise it is
 * the default in the working directory.
 */
export const load = Effect.gen(function*() {
  const {
    awsAccessKeyId: _id,
    awsSecretAccessKey: _secret,
    awsSessionToken: _token,
    blobsCredentialsFile: _file,
    checkpoints,
    secretsKeyCommand,
    secretsKeyFile,
    ...loaded
  } = yield* Setting.values(settings)
  if (secretsKeyCommand !== null && secretsKeyFile !== null) {
    const expected = `unset while ${settings.secretsKeyCommand.name} is set: the key comes from one of them`
    return yield* new Setting.InvalidSetting({ setting: settings.secretsKeyFile.name, expected })
  }
  const blobs = yield* loadBucket
  return {
    ...loaded,
    blobs,
    checkpoints: checkpoints ?? { folder: null, writes: blobs.kind === "database" ? "database" as const : "blobs" as const },
    secretsKeyCommand,
    secretsKeyFile: secretsKeyFile === null ? null : path.resolve(loaded.dataDir, secretsKeyFile),
    dataDirIsSet: yield* Setting.isSet(settings.dataDir)
  }
})
