/** Checks the folders that the operator shows to sandboxes. */
import { describe } from "@slipway/machine/files/Toolchains"
import { Effect } from "effect"
import { existsSync, realpathSync, statSync } from "node:fs"
import path from "node:path"
import { settings as isolation } from "../../settings/Isolation.ts"
import { InvalidSetting } from "../../settings/Setting.ts"
import type { Settings } from "../../settings/Settings.ts"
import * as SourceHosts from "../../settings/SourceHosts.ts"

/** Names with private data of people and tools. A folder that contains one was listed by mistake. */
const PRIVATE = [".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".git-credentials", ".npmrc", ".pypirc", "credentials",
  "credentials.toml"]

/** Folders of the machine itself, with their content. A box has its own under these names. */
const SYSTEM = ["/boot", "/dev", "/etc", "/proc", "/run", "/sys", "/scratch", "/workspace", "/bin", "/sbin", "/lib", "/lib64"]
/** Folders of which only subfolders may be toolchains. */
const SHARED = ["/", "/home", "/mnt", "/root", "/srv", "/tmp", "/usr", "/var"]

const isIn = (at: string, folder: string) => at === folder || at.startsWith(folder === "/" ? folder : `${folder}/`)

/** The real path, as far as it exists. */
const real = (at: string): string => {
  try {
    return realpathSync(at)
  } catch {
    return at === path.dirname(at) ? at : path.join(real(path.dirname(at)), path.basename(at))
  }
}

/** Why the folder must not be shown to sandboxes; `null`: it may be. */
const objection = (
  folder: string,
  { blobs, checkpoints, dataDir, dockerSocket, modelsFile, oidc, secretsKeyFile, signIn, sourceHosts }: Settings
) => {
  try {
    if (!statSync(folder).isDirectory()) return "folders"
  } catch {
    return "existing folders"
  }
  for (const at of [path.normalize(folder).replace(/(?<=.)\/$/u, ""), real(folder)]) {
    if (SHARED.includes(at) || SYSTEM.some((system) => isIn(at, system))) return "folders with only programs, not the system's own"
    const held = PRIVATE.find((name) => existsSync(path.join(at, name)))
    if (held !== undefined) return `folders with only programs, without ${held} (list the ones below it that have the programs)`
    if (isIn(at, real(dataDir))) return "folders outside the data folder"
    const ofBlobs = blobs.kind === "folder"
      ? blobs.folder
      : blobs.kind === "s3" && "file" in blobs.credentials
      ? blobs.credentials.file
      : null
    const files = [
      dataDir,
      checkpoints.folder,
      ofBlobs,
      secretsKeyFile,
      ...SourceHosts.filesOf(sourceHosts),
      signIn?.clientSecretFile,
      oidc?.clientSecretFile,
      modelsFile,
      dockerSocket
    ]
    const own = files.find((file) => typeof file === "string" && isIn(real(file), at))
    if (own !== undefined) return `folders with only programs, without files of the service (${own})`
  }
  return null
}

/** Fails with the first folder that sandboxes must not see. */
export const check = Effect.fn("Toolchains.check")(function*(settings: Settings) {
  for (const folder of settings.toolchains) {
    const expected = objection(folder, settings)
    if (expected !== null) return yield* new InvalidSetting({ setting: isolation.toolchains.name, expected, found: folder })
  }
})

/** A line for each folder: its programs, and why some would not run in a sandbox. */
export const look = Effect.fn("Toolchains.look")(function*({ isolation, toolchains }: Settings) {
  const isOwnUser = isolation !== "none" && process.getuid?.() === 0
  // A container has an image instead of the machine's own programs.
  const others = isolation === "none" ? ["/"] : ["docker", "runner", "kubernetes"].includes(isolation) ? [] : ["/usr"]
  const seen = [...toolchains.map(real), ...others]
  return yield* Effect.promise(() =>
    Promise.all(toolchains.map(async (folder) => ({ folder, ...await describe(folder, { isOwnUser, seen }) })))
  )
})
