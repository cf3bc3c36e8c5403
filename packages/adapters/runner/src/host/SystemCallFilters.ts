/**
 * The filters of system calls that boxes have, in files: for who makes machines of the same things.
 *
 *     <folder>/bubblewrap.bpf     compiled
 *     <folder>/docker.json        a profile
 *     <folder>/gvisor.json        `linux.seccomp` of a container's configuration
 */
import * as SeccompFilter from "@slipway/machine/bubblewrap/SeccompFilter"
import * as SystemCallFilter from "@slipway/machine/gvisor/SystemCallFilter"
import * as SeccompProfile from "@slipway/machine/kernel/SeccompProfile"
import { mkdirSync, renameSync, writeFileSync } from "node:fs"
import { join } from "node:path"

/** Whole or as they were: a machine may be made meanwhile. None on a processor without them. Throws what the disk says. */
export const write = (folder: string): void => {
  const gvisor = SystemCallFilter.filterFor(process.arch)
  const files = {
    "bubblewrap.bpf": SeccompFilter.filterFor(process.arch),
    "docker.json": SeccompProfile.profileFor(process.arch),
    "gvisor.json": gvisor && JSON.stringify(gvisor)
  }
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  for (const [name, content] of Object.entries(files)) {
    if (content === undefined) continue
    writeFileSync(join(folder, `${name}.making`), content, { mode: 0o600 })
    renameSync(join(folder, `${name}.making`), join(folder, name))
  }
}
