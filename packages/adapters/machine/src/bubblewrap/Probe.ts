/** The layers of isolation of a bubblewrap box on this machine. */
import { Effect } from "effect"
import { existsSync, readFileSync } from "node:fs"
import { counted, disk, look, ownUser, type ProbedHost, type Report, size } from "../box/Probe.ts"
import type { SizedFolders } from "../files/SizedFolders.ts"
import type { Limits } from "../host/Limits.ts"
import { USER } from "./Arguments.ts"
import type { HostRequirements } from "./HostRequirements.ts"
import { countsPerNamespace } from "./Launch.ts"

const readSetting = (file: string) => existsSync(file) ? readFileSync(file, "utf8").trim() : undefined

/** The advice for an operator when bubblewrap fails. */
const helpFor = (complaint: string): string => {
  if (/mount proc|remount|systempaths/iu.test(complaint) && /proc/u.test(complaint)) {
    return "This container hides parts of /proc: start it with --security-opt systempaths=unconfined."
  }
  if (/namespace|uid map|clone|Operation not permitted/iu.test(complaint)) {
    if (readSetting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") === "1") {
      return "AppArmor keeps user namespaces from bubblewrap: run sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, " +
        "or give /usr/bin/bwrap a profile with \"userns\"."
    }
    if (readSetting("/proc/sys/kernel/unprivileged_userns_clone") === "0") return "Run: sysctl -w kernel.unprivileged_userns_clone=1"
    if (readSetting("/proc/sys/user/max_user_namespaces") === "0") return "Run: sysctl -w user.max_user_namespaces=10000"
    return "In a container, start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined, as a normal user."
  }
  if (/Permission denied/u.test(complaint)) {
    return "Users of sandboxes must be able to pass through the folders on the way there: chmod o+x."
  }
  return "See whether this works for a normal user: bwrap --unshare-all --ro-bind / / true"
}

/** Limits that the machine enforces, seen in the process itself. */
const limitsOf = (
  requirements: HostRequirements,
  limits: Limits,
  folders: SizedFolders | undefined,
  groupsOfBox: string,
  own: boolean
): Report => {
  const { groups } = requirements
  const reason = "reason" in groups ? groups.reason : "Its controller is not there."
  const version = "reason" in groups ? "" : `control group v${groups.version}`
  const entered = groupsOfBox.includes(`/${requirements.service}/`)
  const grouped = (limit: "memory" | "processes" | "cpu") => entered && !("reason" in groups) && groups.limits.has(limit)
  const counted = own ? "RLIMIT_NPROC of its user" : "RLIMIT_NPROC of each process tree"
  return [
    grouped("memory")
      ? { name: "memory", state: "in force", detail: `${size(limits.memoryBytes)}, ${version}` }
      : { name: "memory", state: "off", detail: reason },
    grouped("processes") || own || countsPerNamespace()
      ? {
        name: "processes",
        state: "in force",
        detail: `${limits.processes}, ${grouped("processes") ? `${version} and ${counted}` : counted}`
      }
      : { name: "processes", state: "off", detail: reason },
    grouped("cpu")
      ? { name: "cpu", state: "in force", detail: `${limits.cpus} processors, ${version}` }
      : { name: "cpu", state: "off", detail: reason },
    disk(limits, folders)
  ]
}

/** Looks at a new box of `host`. Fails when it does not keep in what it should. */
export const run = Effect.fn("Probe.run")(function*(made: ProbedHost<HostRequirements>) {
  const { folders, limits, requirements } = made
  const { counted: processors, groups, user } = yield* look(made, {
    helpFor,
    leakHelp: "Boxes do not keep in what runs in them here; please report it.",
    insideUser: USER
  })
  const report: Report = [
    ownUser(requirements.uids, user),
    { name: "namespaces", state: "in force", detail: "user, pid, network, mount, IPC, UTS; nested ones are refused" },
    { name: "system calls", state: "in force", detail: "filter, no new privileges, no capabilities" },
    { name: "files", state: "in force", detail: "system read-only; workspace, home and scratch folder writable; the rest unseen" },
    { name: "network", state: "in force", detail: "no interface but its own loopback" },
    ...limitsOf(requirements, limits, folders, groups, requirements.uids !== null),
    counted(processors, limits)
  ]
  return report
})
