/** The limits that the kernel lets this process set, found without the code under test. */
import { accessSync, constants } from "node:fs"
import { isRoot } from "../hosts/bubblewrap.fixture.ts"

const isWritable = (file: string) => {
  try {
    accessSync(file, constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** Whether there are control groups, version 1 or 2, for memory and the rest. */
export const isWritableGroup = isRoot &&
  ["memory/memory.limit_in_bytes", "cgroup.subtree_control"].some((file) => isWritable(`/sys/fs/cgroup/${file}`))
