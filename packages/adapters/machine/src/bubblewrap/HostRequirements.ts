/** The programs, files and rights on this machine that boxes of bubblewrap need. */
import { Effect } from "effect"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { findTools } from "../box/Launcher.ts"
import * as ServiceFolder from "../files/ServiceFolder.ts"
import { NotIsolated } from "../host/NotIsolated.ts"
import * as Cgroups from "../kernel/Cgroups.ts"
import { packages, type Tools } from "./Launch.ts"
import { filterFor } from "./SeccompFilter.ts"

export interface HostRequirements extends ServiceFolder.ServiceFolder {
  readonly tools: Tools
  readonly filterFile: string
  readonly groups: Cgroups.Groups | Cgroups.NoGroups
}

export interface Options extends ServiceFolder.Options {
  /** Where the kernel's control groups are mounted. */
  readonly cgroupRoot?: string
}

const install = (name: string) => `Install it: apt-get install ${name} (or dnf install ${name}, pacman -S ${name}, apk add ${name}).`

export const find = Effect.fn("HostRequirements.find")(function*(options: Options) {
  const refuse = (missing: string, help: string) => new NotIsolated({ missing: [missing], help })
  if (process.platform !== "linux") {
    return yield* refuse(`bubblewrap needs Linux, and this is ${process.platform}.`, "Run the service on Linux, or in a Linux machine.")
  }
  const filter = filterFor(process.arch)
  if (filter === undefined) return yield* refuse(`There is no system call filter for ${process.arch}.`, "Run the service on x64 or arm64.")
  const tools = yield* Effect.promise(() => findTools(packages))
  if ("package" in tools) return yield* refuse(`The program ${tools.tool} is not installed.`, install(tools.package))

  const folder = yield* ServiceFolder.open(options)
  const filterFile = join(folder.directory, "filter.bpf")
  const requirements: HostRequirements = {
    ...folder,
    tools,
    filterFile,
    groups: yield* Effect.promise(async () => {
      await writeFile(filterFile, filter, { mode: 0o600 })
      return Cgroups.open(folder.service, options.cgroupRoot)
    })
  }
  return requirements
})
