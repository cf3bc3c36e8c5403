/** What this machine and the rights of this process give to keep boxes in. */
import { createHash } from "node:crypto"
import { chmod, mkdir, realpath, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { Effect } from "effect"
import { NotIsolated } from "../box/NotIsolated.ts"
import * as Cgroups from "./Cgroups.ts"
import { findTools, type Tools } from "./Launch.ts"
import { filterFor } from "./SeccompFilter.ts"
import * as Uids from "../box/Uids.ts"

export interface Means {
  /** Holds what there is of sandboxes beside their trees; no link in its path. */
  readonly directory: string
  /** Tells what belongs to this service from what belongs to others on the machine. */
  readonly service: string
  readonly tools: Tools
  readonly filterFile: string
  /** `null`: all boxes run as our own user. */
  readonly uids: ReturnType<typeof Uids.make> | null
  readonly groups: Cgroups.Groups | Cgroups.NoGroups
}

export interface Options {
  /** Made when missing. */
  readonly directory: string
  /** Where services of this machine keep which users they gave away. Default `/var/lib/slipway/uids`. */
  readonly uidRegistry?: string
  /** Where the kernel's control groups are mounted. */
  readonly cgroupRoot?: string
}

const install = (name: string) => `Install it: apt-get install ${name} (or dnf install ${name}, pacman -S ${name}, apk add ${name}).`

export const find = Effect.fn("Means.find")(function*(options: Options) {
  const refuse = (missing: string, help: string) => new NotIsolated({ missing: [missing], help })
  if (process.platform !== "linux") return yield* refuse(`bubblewrap needs Linux, and this is ${process.platform}.`, "Run the service on Linux, or in a Linux machine.")
  const filter = filterFor(process.arch)
  if (filter === undefined) return yield* refuse(`There is no system call filter for ${process.arch}.`, "Run the service on x64 or arm64.")
  const tools = yield* Effect.promise(findTools)
  if ("package" in tools) return yield* refuse(`The program ${tools.tool} is not installed.`, install(tools.package))

  const isRoot = process.getuid?.() === 0
  const range = isRoot ? Uids.range() : null
  if (isRoot && range === null) {
    return yield* refuse("This root can become too few other users, and boxes never run as root.", "Run the service as a normal user, or map more users into its container.")
  }
  return yield* Effect.tryPromise({
    try: async (): Promise<Means> => {
      await mkdir(options.directory, { recursive: true, mode: 0o711 })
      const directory = await realpath(options.directory)
      // As a host without isolation may have left it.
      await chmod(directory, 0o711)
      const service = `slipway-${createHash("sha256").update(directory).digest("hex").slice(0, 12)}`
      const filterFile = join(directory, "filter.bpf")
      await writeFile(filterFile, filter, { mode: 0o600 })
      const uids = range === null ? null : Uids.make({ registry: options.uidRegistry ?? Uids.REGISTRY, directory, range })
      await uids?.prune()
      return { directory, service, tools, filterFile, uids, groups: await Cgroups.open(service, options.cgroupRoot) }
    },
    catch: (error) => error instanceof NotIsolated ? error : refuse(`${options.directory} cannot be used (${error instanceof Error ? error.message : error}).`, "Choose another folder with SLIPWAY_DATA_DIR.")
  })
})
