/**
 * How a process of the service becomes a box, in an order that leaves no gap: it enters its control groups, takes its
 * limits, becomes the sandbox's user without a way back, and only then is bubblewrap.
 */
import { constants, existsSync, readdirSync, readFileSync } from "node:fs"
import { access } from "node:fs/promises"
import { release } from "node:os"
import { join } from "node:path"
import type { Limits } from "../box/Limits.ts"
import type { Relay } from "./Relay.ts"

/** Programs of the machine that boxes are made with, where they were found. */
export interface Tools {
  readonly bwrap: string
  readonly setpriv: string
  readonly prlimit: string
  readonly taskset: string
  readonly unshare: string
}

/** Name of the package that has a tool, the same in Debian, Ubuntu, Fedora and Arch. */
const packages: Readonly<Record<keyof Tools, string>> = {
  bwrap: "bubblewrap",
  setpriv: "util-linux",
  prlimit: "util-linux",
  taskset: "util-linux",
  unshare: "util-linux"
}

/** Not the service's own PATH, which a checkout may have put itself into. */
export const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

interface MissingTool {
  readonly tool: keyof Tools
  readonly package: string
}

const find = async (tool: string): Promise<string | undefined> => {
  for (const folder of PATH.split(":")) {
    const file = join(folder, tool)
    if (await access(file, constants.X_OK).then(() => true, () => false)) return file
  }
  return undefined
}

/** The tools, or the first one that is missing. */
export const findTools = async (): Promise<Tools | MissingTool> => {
  const found: Record<keyof Tools, string> = { bwrap: "", setpriv: "", prlimit: "", taskset: "", unshare: "" }
  for (const tool of ["bwrap", "setpriv", "prlimit", "taskset", "unshare"] as const) {
    const file = await find(tool)
    if (file === undefined) return { tool, package: packages[tool] }
    found[tool] = file
  }
  return found
}

export const descriptors = { seccomp: 3, arguments: 4, info: 5 }

const O_CLOEXEC = 0o2000000

/**
 * Descriptors that whoever started the service left open for all it starts. Node opens its own so that they are not passed
 * on, and sees to the lowest ones when it starts, but not to those behind a gap (as of Node 24).
 */
export const strays = (): ReadonlyArray<number> =>
  readdirSync("/proc/self/fdinfo").map(Number).filter((descriptor) => {
    if (descriptor <= 2) return false
    try {
      const flags = /^flags:\s*(\d+)/mu.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8"))?.[1] ?? "0"
      return (parseInt(flags, 8) & O_CLOEXEC) === 0
    } catch {
      return false // closed meanwhile
    }
  })

/**
 * The shell, with options. A plain `sh` may not know how to close descriptors of two digits. Bash takes a standard input
 * that is a socket for a remote login, and would read its owner's settings.
 */
const shell = (strays: ReadonlyArray<number>): readonly [program: string, ...options: ReadonlyArray<string>] =>
  strays.some((descriptor) => descriptor > 9) && existsSync("/bin/bash") ? ["/bin/bash", "--norc", "--noprofile"] : ["/bin/sh"]

/**
 * Arguments: how many group files follow, those, the descriptors to close, how many mounts follow, where from and where to of each,
 * the filter, bubblewrap's options, the file for what it says, the command. Mounts come with what is mounted below: what the sandbox
 * is shown of caches. The kernel shall rather end a box than the service when memory runs out, and let it wait when processors are short.
 */
const SCRIPT = `
n=$1; shift
while [ "$n" -gt 0 ]; do echo $$ > "$1" || exit 125; shift; n=$((n-1)); done
for descriptor in $1; do eval "exec $descriptor>&-" || exit 125; done
shift
n=$1; shift
while [ "$n" -gt 0 ]; do mount -o rbind "$1" "$2" || exit 125; shift 2; n=$((n-1)); done
umask 022
echo 500 > /proc/self/oom_score_adj || :
exec ${descriptors.seccomp}<"$1" ${descriptors.arguments}<"$2" ${descriptors.info}>"$3" || exit 125
shift 3
exec nice -n 5 "$@"
`

/** Whether the kernel counts processes in each user namespace by itself (Linux 5.14); else all of our user's would count. */
export const countsPerNamespace = (version = release()): boolean => {
  const [major = 0, minor = 0] = version.split(".").map(Number)
  return major > 5 || (major === 5 && minor >= 14)
}

/** What this process may raise a limit to, as a row of `/proc/self/limits` has it: asking for more would fail. */
const within = (row: string, wanted: number): number => {
  const hard = new RegExp(`^${row} +\\S+ +(\\S+)`, "mu").exec(readFileSync("/proc/self/limits", "utf8"))?.[1] ?? "unlimited"
  return hard === "unlimited" ? wanted : Math.min(wanted, Number(hard))
}

interface Launch {
  readonly tools: Tools
  /** `null`: our own user, who has no way to become another. */
  readonly user: { readonly uid: number; readonly gid: number } | null
  readonly limits: Limits
  /** Those of the machine that it runs on; `null`: all. */
  readonly processors: string | null
  /** A process writes its id into each. */
  readonly groupFiles: ReadonlyArray<string>
  /** Whether its group limits processes. */
  readonly isGrouped: boolean
  readonly relay: Relay
  readonly strays: ReadonlyArray<number>
  readonly filterFile: string
  /** Options of bubblewrap, each ended by NUL: here, since they hold secrets of the command's environment. */
  readonly argumentsFile: string
  readonly infoFile: string
  readonly command: ReadonlyArray<string>
}

/**
 * What a user may have beyond its sandbox's group where there is one. The kernel looks at the user first and counts nothing that it
 * refuses there: so the group's limit is the one that is met, which it counts.
 */
const BEHIND_GROUP = 64

/** The command line, program first. */
export const commandLine = (launch: Launch): ReadonlyArray<string> => {
  const { limits, processors, relay: { mounts }, tools, user } = launch
  const processes = `--nproc=${within("Max processes", limits.processes + (launch.isGrouped ? BEHIND_GROUP : 0))}`
  return [
    // Outside of its group still, but nobody's program: it sees to it that the mounts are the box's alone.
    ...(mounts.length === 0 ? [] : [tools.unshare, "--mount", "--propagation", "private"] as const),
    ...shell(launch.strays),
    ...["-c", SCRIPT, "slipway-box", `${launch.groupFiles.length}`, ...launch.groupFiles, launch.strays.join(" ")],
    ...[`${mounts.length}`, ...mounts.flat(), launch.filterFile, launch.argumentsFile, launch.infoFile],
    ...(processors === null ? [] : [tools.taskset, "--cpu-list", processors]),
    ...[tools.prlimit, "--core=0", `--fsize=${within("Max file size", limits.fileBytes)}`,
      `--nofile=${within("Max open files", limits.openFiles)}`],
    // Counted per user of a user namespace: here where the user is the sandbox's own, else once in the box.
    ...(user === null ? [] : [processes]),
    ...[tools.setpriv, ...(user === null ? [] : [`--reuid=${user.uid}`, `--regid=${user.gid}`, "--clear-groups"]), "--no-new-privs"],
    ...[tools.bwrap, "--args", `${descriptors.arguments}`, "--"],
    ...(user === null && countsPerNamespace() ? [tools.prlimit, processes] : []),
    ...launch.command
  ]
}
