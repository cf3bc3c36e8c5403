/**
 * How a process of the service becomes a box, in an order that leaves no gap: it enters its control groups, takes its
 * limits, becomes the sandbox's user without a way back, and only then is bubblewrap.
 */
import { readFileSync } from "node:fs"
import { release } from "node:os"
import * as Launcher from "../box/Launcher.ts"
import type { PathRelay } from "../files/PathRelay.ts"
import type { Limits } from "../host/Limits.ts"

/** Programs of the machine that boxes are made with, and the package that has each, the same in Debian, Ubuntu, Fedora and Arch. */
export const packages = { bwrap: "bubblewrap", setpriv: "util-linux", prlimit: "util-linux", taskset: "util-linux", unshare: "util-linux" }

/** Where they were found. */
export type Tools = Readonly<Record<keyof typeof packages, string>>

export const descriptors = { seccomp: 3, arguments: 4, info: 5 }

/** Arguments: the filter, bubblewrap's options, the file for what it says, the command. */
const SCRIPT = `
exec ${descriptors.seccomp}<"$1" ${descriptors.arguments}<"$2" ${descriptors.info}>"$3" || exit 125
shift 3
exec nice -n 5 "$@"
`

/** Whether the kernel counts processes in each user namespace by itself (Linux 5.14); else all of our user's would count. */
export const countsPerNamespace = (version = release()): boolean => {
  const [major = 0, minor = 0] = version.split(".").map(Number)
  return major > 5 || (major === 5 && minor >= 14)
}

/** The highest limit that this process may set, from a row of `/proc/self/limits`. A higher one would fail. */
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
  readonly relay: PathRelay
  readonly strays: ReadonlyArray<number>
  readonly filterFile: string
  /** Options of bubblewrap, each ended by NUL: here, since they hold secrets of the command's environment. */
  readonly argumentsFile: string
  readonly infoFile: string
  readonly command: ReadonlyArray<string>
}

/**
 * The margin of a user's limit above the limit of its sandbox's group. The kernel checks the user first and does not count these failures.
 * With the margin the group's limit is reached first, and the kernel counts it.
 */
const BEHIND_GROUP = 64

/** The command line, program first. */
export const commandLine = (launch: Launch): ReadonlyArray<string> => {
  const { limits, processors, relay: { mounts }, tools, user } = launch
  const processes = `--nproc=${within("Max processes", limits.processes + (launch.isGrouped ? BEHIND_GROUP : 0))}`
  return [
    ...Launcher.launched({ groupFiles: launch.groupFiles, mounts, rest: SCRIPT, strays: launch.strays, unshare: tools.unshare }),
    ...[launch.filterFile, launch.argumentsFile, launch.infoFile],
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
