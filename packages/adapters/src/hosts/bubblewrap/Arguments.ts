/** What a box sees and may do, as arguments of bubblewrap. An allow list: what is not named here is not there. */
import { lstatSync, readlinkSync } from "node:fs"
import { dirname } from "node:path"
import { EGRESS_SOCKET, SCRATCH, WORKSPACE } from "../box/Places.ts"

/** Inside every box; the host knows it as the sandbox's own user. */
export const USER = 1000

export interface Sight {
  /** Path of the agent's home in the box. */
  readonly home: string
  /** Host folders that become the home, the scratch folder and the workspace: all that a box can write to on a disk. */
  readonly homeFolder: string
  readonly scratchFolder: string
  readonly workspaceFolder: string
  /** Host paths that appear in the box where they are on the host. A missing one is left out. */
  readonly readOnly: ReadonlyArray<string>
  /** Folder with the files of `/etc` that are the box's own, and their names. */
  readonly etc: string
  readonly etcFiles: ReadonlyArray<string>
  /** Host path of the egress socket, for {@link EGRESS_SOCKET}. */
  readonly egressSocket: string | null
  /** How the box's user reaches a path of the host. */
  readonly through: (path: string) => string
  /** Bytes of `/tmp`, and as many of `/dev/shm`. */
  readonly memoryFilesBytes: number
}

/** System folders that are links into `/usr` on most systems, and folders of their own on others. */
const system = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"].flatMap((path) => {
  try {
    return lstatSync(path).isSymbolicLink() ? ["--symlink", readlinkSync(path), path] : ["--ro-bind", path, path]
  } catch {
    return []
  }
})

/** Certificates, the linker's cache and the like: public, and wanted by every program. */
const configuration = [
  "alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "gai.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
  "localtime", "mime.types", "nsswitch.conf", "os-release", "pki/ca-trust", "pki/tls/certs", "protocols", "services", "ssl/certs", "ssl/openssl.cnf"
]

/** Options of bubblewrap, up to the command. `seccomp` is the descriptor that it reads the filter from. */
export const bubblewrap = (
  { through, ...sight }: Sight,
  descriptors: { readonly seccomp: number; readonly info: number }
): ReadonlyArray<string> => [
  ...["--seccomp", `${descriptors.seccomp}`, "--info-fd", `${descriptors.info}`],
  ...["--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
  ...["--die-with-parent", "--new-session", "--cap-drop", "ALL"],
  ...["--uid", `${USER}`, "--gid", `${USER}`, "--hostname", "sandbox"],
  ...["--ro-bind", "/usr", "/usr", ...system],
  ...configuration.flatMap((name) => ["--ro-bind-try", `/etc/${name}`, `/etc/${name}`]),
  ...sight.etcFiles.flatMap((name) => ["--ro-bind", through(`${sight.etc}/${name}`), `/etc/${name}`]),
  ...["--proc", "/proc", "--dev", "/dev"],
  ...["/dev/shm", "/tmp"].flatMap((path) => ["--size", `${sight.memoryFilesBytes}`, "--perms", "1777", "--tmpfs", path]),
  // Before anything that a box can write to: there, mount points could lead elsewhere.
  ...sight.readOnly.flatMap((path) => ["--ro-bind-try", through(path), path]),
  ...["--bind", through(sight.homeFolder), sight.home, "--bind", through(sight.scratchFolder), SCRATCH],
  ...["--bind", through(sight.workspaceFolder), WORKSPACE],
  ...["--dir", dirname(EGRESS_SOCKET)],
  ...(sight.egressSocket === null ? [] : ["--ro-bind", through(sight.egressSocket), EGRESS_SOCKET]),
  ...["--chdir", WORKSPACE, "--remount-ro", "/dev", "--remount-ro", "/"]
]
