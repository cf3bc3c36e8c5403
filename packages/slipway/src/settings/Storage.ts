/** Where the service keeps what it has. */
import { Effect } from "effect"
import path from "node:path"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  dataDir: Setting.withDefault({
    name: "SLIPWAY_DATA_DIR",
    type: Type.folder,
    default: ".slipway",
    about: "Folder for the embedded database, the clones and the working trees.",
    role: "all"
  }),
  databaseUrl: Setting.optional({
    name: "DATABASE_URL",
    type: Type.redacted(Type.parsed(
      "a postgres:// address",
      (value) => URL.canParse(value) && /^postgres(?:ql)?:$/u.test(new URL(value).protocol)
    )),
    about: "Postgres 15 or newer, as postgres://user@host/database. Without it, an embedded Postgres in the data folder.",
    role: "all",
    secret: true
  }),
  startup: Setting.withDefault({
    name: "SLIPWAY_STARTUP_SECONDS",
    type: Type.seconds(0, 86_400),
    default: "60",
    about: "How long a process that starts waits for the Postgres at DATABASE_URL to answer.",
    role: "all"
  }),
  secretsKeyFile: Setting.optional({
    name: "SLIPWAY_SECRETS_KEY_FILE",
    type: Type.text("a file"),
    about:
      "File with the key that stored secrets, such as webhooks', are encrypted with: 32 bytes in base64. The same for every process on " +
      "one database. Without it, secrets.key in the data folder, made with the first secret.",
    role: "all"
  }),
  postgresAccount: Setting.optional({
    name: "SLIPWAY_PG_USER",
    type: Type.text("the name of an account"),
    about: "Account the embedded Postgres runs as when this process is root. Without it, slipway or postgres, made if missing.",
    role: "all"
  })
}

/** Paths are absolute. `dataDirIsSet`: somebody chose it; else it is the default, beneath the folder that the process was started in. */
export const load = Effect.gen(function*() {
  const { secretsKeyFile, ...loaded } = yield* Setting.values(settings)
  return {
    ...loaded,
    secretsKeyFile: path.resolve(loaded.dataDir, secretsKeyFile ?? "secrets.key"),
    dataDirIsSet: yield* Setting.isSet(settings.dataDir)
  }
})
