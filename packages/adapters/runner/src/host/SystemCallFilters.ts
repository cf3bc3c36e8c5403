/**
 * Writes the system call filters of boxes to files, for makers of machines of the same kinds.
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

/**
 * Each file is complete or unchanged, because a machine may be made meanwhile. No file on an unsupported processor. Throws errors of the
 * disk.
 */
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
