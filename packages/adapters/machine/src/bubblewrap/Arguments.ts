/** The files and rights of a box, as arguments of bubblewrap. */
import { dirname } from "node:path"
import type { Launch } from "../box/BoxKind.ts"
import { EGRESS_SOCKET, SCRATCH, WORKSPACE } from "../files/BoxPaths.ts"
import * as SystemFiles from "../host/SystemFiles.ts"

/** Inside every box; the host knows it as the sandbox's own user. */
export const USER = 1000

interface Sight extends Pick<Launch, "etcFiles" | "folder" | "hasWayOut" | "isReading" | "limits" | "readOnly" | "workspace"> {
  /** How the box's user reaches a path of the host. */
  readonly through: (path: string) => string
}

/** Options of bubblewrap, up to the command. `seccomp` is the descriptor that it reads the filter from. */
export const bubblewrap = (
  { etcFiles, folder, hasWayOut, isReading, limits, readOnly, through, workspace }: Sight,
  descriptors: { readonly seccomp: number; readonly info: number }
): ReadonlyArray<string> => [
  ...["--seccomp", `${descriptors.seccomp}`, "--info-fd", `${descriptors.info}`],
  ...["--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
  ...["--die-with-parent", "--new-session", "--cap-drop", "ALL"],
  ...["--uid", `${USER}`, "--gid", `${USER}`, "--hostname", "sandbox"],
  ...["--ro-bind", "/usr", "/usr", ...SystemFiles.bubblewrapOptions],
  ...SystemFiles.configuration().flatMap((name) => ["--ro-bind-try", `/etc/${name}`, `/etc/${name}`]),
  ...etcFiles.flatMap((name) => ["--ro-bind", through(`${folder.etc}/${name}`), `/etc/${name}`]),
  ...["--proc", "/proc", "--dev", "/dev"],
  ...["/dev/shm", "/tmp"].flatMap((path) => ["--size", `${limits.memoryFilesBytes}`, "--perms", "1777", "--tmpfs", path]),
  // Before anything that a box can write to: there, mount points could lead elsewhere.
  ...readOnly.flatMap((path) => ["--ro-bind-try", through(path), path]),
  ...["--bind", through(folder.home), folder.homeInBox, "--bind", through(folder.scratch), SCRATCH],
  ...[isReading ? "--ro-bind" : "--bind", through(workspace), WORKSPACE],
  ...["--dir", dirname(EGRESS_SOCKET)],
  ...(hasWayOut ? ["--ro-bind", through(folder.socket), EGRESS_SOCKET] : []),
  ...["--chdir", WORKSPACE, "--remount-ro", "/dev", "--remount-ro", "/"]
]
