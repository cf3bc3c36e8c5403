/** The installed agents, and for each missing one the reason and the remedy. */
import { Effect, Schema } from "effect"
import { readFileSync } from "node:fs"
import { access, constants, readFile } from "node:fs/promises"
import path from "node:path"
import type { Platform, Profile, Program } from "./Profile.ts"

export type Installed =
  | {
    readonly state: "ready"
    /** The version of the program; `null`: it is a part of Slipway. */
    readonly version: string | null
    /** The absolute path of the program. */
    readonly command: string
  }
  | {
    readonly state: "unusable"
    /** The installed version, if any. */
    readonly version: string | null
    /** A sentence with the command that fixes it. */
    readonly reason: string
  }

/** The folder of `slipway agents install`, below the data folder. */
export const folderIn = (dataDir: string): string => path.join(dataDir, "agents")

const hasAvx2 = () => {
  try {
    return /\bavx2\b/u.test(readFileSync("/proc/cpuinfo", "utf8"))
  } catch {
    return false
  }
}

let known: Platform | undefined
/** The present machine. */
export const thisPlatform = (): Platform => (known ??= { os: process.platform, arch: process.arch, avx2: hasAvx2() })

const Manifest = Schema.fromJsonString(Schema.Struct({ version: Schema.String }))
const decodeManifest = Schema.decodeUnknownEffect(Manifest)

/** The version of a package below `folder`; `null`: missing or incomplete. */
const packageVersion = (folder: string, name: string): Effect.Effect<string | null> =>
  Effect.tryPromise(() => readFile(path.join(folder, "node_modules", name, "package.json"), "utf8")).pipe(
    Effect.flatMap(decodeManifest),
    Effect.match({ onSuccess: ({ version }) => version, onFailure: () => null })
  )

const isExecutable = (file: string) =>
  Effect.match(Effect.tryPromise(() => access(file, constants.X_OK)), { onSuccess: () => true, onFailure: () => false })

/** The first existing binary. */
export const binaryOf = Effect.fnUntraced(function*(folder: string, program: Program, platform: Platform = thisPlatform()) {
  for (const candidate of program.binaries(platform)) {
    const file = path.join(folder, "node_modules", candidate)
    if (yield* isExecutable(file)) return file
  }
  return null
})

const helps = (name: string) => `Run: slipway agents install ${name}`

/** Reads the disk without starting programs, about 1 ms. `folder`: from {@link folderIn}; `null`: this process has none. */
export const inspect = Effect.fn("Installed.inspect")(function*(
  name: string,
  { program }: Profile,
  folder: string | null,
  platform: Platform = thisPlatform()
): Effect.fn.Return<Installed> {
  if (program === null) return { state: "ready", version: null, command: process.execPath }
  const unusable = (version: string | null, reason: string): Installed => ({ state: "unusable", version, reason })
  if (program.binaries(platform).length === 0) {
    return unusable(null, `${name} has no build for ${platform.os} on ${platform.arch}.`)
  }
  if (program.pins(platform).length === 0) {
    return unusable(
      null,
      `Slipway does not know the digest of ${name} ${program.version} for ${platform.os} on ${platform.arch}, so it is not installed there.`
    )
  }
  const version = folder === null ? null : yield* packageVersion(folder, program.package)
  if (folder === null || version === null) return unusable(null, `${name} is not installed. ${helps(name)}`)
  if (version !== program.version) {
    return unusable(version, `${name} ${version} is installed, but Slipway was tried with ${program.version}. ${helps(name)}`)
  }
  const command = yield* binaryOf(folder, program, platform)
  if (command === null) return unusable(version, `${name} is installed without its program. ${helps(name)}`)
  return { state: "ready", version, command }
})
