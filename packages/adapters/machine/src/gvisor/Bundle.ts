/**
 * The files and rights of a gVisor container, as the OCI runtime specification (1.0.2) has them: a configuration, and the folders and files
 * that are mount points. An allow list: everything else is absent.
 */
import { statSync } from "node:fs"
import { mkdir, symlink, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { Launch } from "../box/BoxKind.ts"
import { EGRESS_SOCKET, SCRATCH, WORKSPACE } from "../files/BoxPaths.ts"
import * as SystemFiles from "../host/SystemFiles.ts"
import type * as Ownership from "../users/Ownership.ts"
import type { Filter } from "./SystemCallFilter.ts"

/** Inside every box; the machine knows it as the sandbox's own user. */
export const USER = 1000

/** Root inside, who owns nothing and whom no program becomes; the machine knows gVisor's own processes by it. */
const INNER_ROOT = 0

interface Sight extends
  Pick<
    Launch,
    "command" | "environment" | "etcFiles" | "folder" | "hasWayOut" | "isReading" | "limits" | "readOnly" | "workspace"
  >
{
  readonly user: Ownership.User
  /** Whose processes gVisor's own are: its kernel, and who opens files for it. */
  readonly kernelUser: Ownership.User
  readonly filter: Filter
  /** How gVisor's own processes reach a path of the host. */
  readonly through: (path: string) => string
}

interface Mount {
  readonly destination: string
  readonly type: "bind" | "proc" | "tmpfs"
  readonly source: string
  readonly options?: ReadonlyArray<string>
}

const bind = (source: string, destination: string, mode: "ro" | "rw"): Mount => ({
  destination,
  type: "bind",
  source,
  // With what is mounted below.
  options: ["rbind", mode, "nosuid", "nodev"]
})

const isWithin = (path: string, folder: string) => path.startsWith(`${folder}/`)

/** Each mount costs gVisor some milliseconds: those that another one has are left out. */
const outermost = (paths: ReadonlyArray<string>): ReadonlyArray<string> => {
  const system = ["/usr", ...SystemFiles.folders.flatMap(({ link, path }) => link === null ? [path] : [])]
  const all = [...new Set(paths)]
  return all.filter((path) => ![...system, ...all].some((folder) => path === folder ? system.includes(path) : isWithin(path, folder)))
}

const isThere = (path: string) => statSync(path, { throwIfNoEntry: false }) !== undefined

/** From where they are on the host. */
const mounts = ({ etcFiles, folder, hasWayOut, isReading, limits, readOnly, workspace }: Sight): ReadonlyArray<Mount> => {
  const inMemory = (destination: string): Mount => ({
    destination,
    type: "tmpfs",
    source: "tmpfs",
    options: ["nosuid", "nodev", `size=${limits.memoryFilesBytes}`, "mode=1777"]
  })
  return [
    { destination: "/proc", type: "proc", source: "proc" },
    bind("/usr", "/usr", "ro"),
    ...SystemFiles.folders.flatMap(({ link, path }) => link === null ? [bind(path, path, "ro")] : []),
    ...SystemFiles.configuration().map((name) => `/etc/${name}`).filter(isThere).map((path) => bind(path, path, "ro")),
    ...etcFiles.map((name) => bind(`${folder.etc}/${name}`, `/etc/${name}`, "ro")),
    ...["/dev/shm", "/tmp"].map(inMemory),
    // Before anything that a box can write to.
    ...outermost(readOnly).map((path) => bind(path, path, "ro")),
    bind(folder.home, folder.homeInBox, "rw"),
    bind(folder.scratch, SCRATCH, "rw"),
    bind(workspace, WORKSPACE, isReading ? "ro" : "rw"),
    ...(hasWayOut ? [bind(folder.socket, EGRESS_SOCKET, "ro")] : [])
  ]
}

const limit = (type: string, value: number) => ({ type, hard: value, soft: value })

/** Our users in place of those inside. */
const mapped = (kernel: number, own: number) => [
  { containerID: INNER_ROOT, hostID: kernel, size: 1 },
  { containerID: USER, hostID: own, size: 1 }
]

const configuration = (sight: Sight, root: string, shown: ReadonlyArray<Mount>) => ({
  ociVersion: "1.0.2",
  hostname: "sandbox",
  root: { path: root, readonly: true },
  process: {
    terminal: false,
    user: { uid: USER, gid: USER, umask: 0o022 },
    args: sight.command,
    env: Object.entries(sight.environment).map(([name, value]) => `${name}=${value}`),
    cwd: WORKSPACE,
    capabilities: { bounding: [], effective: [], inheritable: [], permitted: [], ambient: [] },
    noNewPrivileges: true,
    rlimits: [
      limit("RLIMIT_CORE", 0),
      limit("RLIMIT_FSIZE", sight.limits.fileBytes),
      limit("RLIMIT_NOFILE", sight.limits.openFiles),
      // The machine's kernel sees few of a container's processes.
      limit("RLIMIT_NPROC", sight.limits.processes)
    ]
  },
  mounts: shown.map((mount) => mount.type === "bind" ? { ...mount, source: sight.through(mount.source) } : mount),
  linux: {
    namespaces: ["user", "pid", "network", "mount", "ipc", "uts"].map((type) => ({ type })),
    uidMappings: mapped(sight.kernelUser.uid, sight.user.uid),
    gidMappings: mapped(sight.kernelUser.gid, sight.user.gid),
    seccomp: sight.filter
  }
})

/** Mount points: gVisor has no right to make them. */
const makeRoot = async (root: string, shown: ReadonlyArray<Mount>): Promise<void> => {
  const isFile = ({ source, type }: Mount) => type === "bind" && !statSync(source).isDirectory()
  const files = shown.filter(isFile).map(({ destination }) => destination)
  const folders = [
    "/sys",
    "/dev",
    dirname(EGRESS_SOCKET),
    ...files.map((file) => dirname(file)),
    ...shown.map(({ destination }) => destination).filter((path) => !files.includes(path))
  ]
  for (const folder of new Set(folders)) await mkdir(join(root, folder), { recursive: true, mode: 0o755 })
  await Promise.all([
    ...files.map((file) => writeFile(join(root, file), "", { mode: 0o644 })),
    ...SystemFiles.folders.flatMap(({ link, path }) => link === null ? [] : [symlink(link, join(root, path))])
  ])
}

/** Writes `<folder>/config.json`, which has secrets of the command's environment, and `<folder>/root`. */
export const write = async (folder: string, sight: Sight): Promise<void> => {
  const root = join(folder, "root")
  const shown = mounts(sight)
  await makeRoot(root, shown)
  await writeFile(join(folder, "config.json"), JSON.stringify(configuration(sight, root, shown)), { mode: 0o600 })
}
