/** The place of the key of stored secrets, by the settings. */
import type { KeySource } from "@slipway/postgres/secret-store/SecretsKey"
import path from "node:path"
import type { Settings } from "../../settings/Settings.ts"
import { settings as storage } from "../../settings/Storage.ts"
import * as BackupFolder from "./BackupFolder.ts"

/** The command's own credentials are in variables that Slipway does not know. It gets none of Slipway's own, which hold secrets. */
const environment = () =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("SLIPWAY_") && name !== storage.databaseUrl.name))

type Given = Pick<Settings, "dataDir" | "secretsKeyCommand" | "secretsKeyFile">

export const sourceOf = ({ dataDir, secretsKeyCommand, secretsKeyFile }: Given): KeySource =>
  secretsKeyCommand === null
    ? { file: secretsKeyFile ?? path.join(dataDir, BackupFolder.KEY) }
    : { command: { ...secretsKeyCommand, env: environment() } }

/** Where an operator keeps the key outside the data folder; `null`: it is in the data folder. */
export const elsewhere = ({ secretsKeyCommand, secretsKeyFile }: Omit<Given, "dataDir">): string | null =>
  secretsKeyCommand === null ? secretsKeyFile : `what ${secretsKeyCommand.program} prints (${storage.secretsKeyCommand.name})`
