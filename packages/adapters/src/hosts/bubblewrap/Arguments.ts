/** What a box sees and may do, as arguments of bubblewrap. An allow list: what is not named here is not there. */
import { lstatSync, readlinkSync } from "node:fs"
import { dirname } from "node:path"
import type { Launch } from "../box/IsolatedHost.ts"
import { EGRESS_SOCKET, SCRATCH, WORKSPACE } from "../box/Places.ts"

/** Inside every box; the host knows it as the sandbox's own user. */
export const USER = 1000

interface Sight extends Pick<Launch, "etcFiles" | "folder" | "hasWayOut" | "isReading" | "limits" | "readOnly" | "workspace"> {
  /** How the box's user reaches a path of the host. */
  readonly through: (path: string) => string
}

/** System folders that are links into `/usr` on most systems, and folders of their own on others. */
export const system = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"].flatMap((path) => {
  try {
    return lstatSync(path).isSymbolicLink() ? ["--symlink", readlinkSync(path), path] : ["--ro-bind", path, path]
  } catch {
    return []
  }
})

/** Certificates, the linker's cache and the like: public, and wanted by every program. */
const configuration = [
  "alternatives",
  "ca-certificates",
  "ca-certificates.conf",
  "crypto-policies",
  "gai.conf",
  "ld.so.cache",
  "ld.so.conf",
  "ld.so.conf.d",
  "localtime",
  "mime.types",
  "nsswitch.conf",
  "os-release",
  "pki/ca-trust",
  "pki/tls/certs",
  "protocols",
  "services",
  "ssl/certs",
  "ssl/openssl.cnf"
]

/** Options of bubblewrap, up to the command. `seccomp` is the descriptor that it reads the filter from. */
export const bubblewrap = (
  { etcFiles, folder, hasWayOut, isReading, limits, readOnly, through, workspace }: Sight,
  descriptors: { readonly seccomp: number; readonly info: number }
): ReadonlyArray<string> => [
  ...["--seccomp", `${descriptors.seccomp}`, "--info-fd", `${descriptors.info}`],
  ...["--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
  ...["--die-with-parent", "--new-session", "--cap-drop", "ALL"],
  ...["--uid", `${USER}`, "--gid", `${USER}`, "--hostname", "sandbox"],
  ...["--ro-bind", "/usr", "/usr", ...system],
  ...configuration.flatMap((name) => ["--ro-bind-try", `/etc/${name}`, `/etc/${name}`]),
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
