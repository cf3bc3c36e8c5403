import { existsSync } from "node:fs"
import { isRoot } from "../hosts/bubblewrap.fixture.ts"

/** Whether the kernel limits memory here. */
export const isWritableGroup = isRoot && ["/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/cgroup.controllers"].some((file) => existsSync(file))
