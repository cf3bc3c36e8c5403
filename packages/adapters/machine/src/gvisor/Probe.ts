/** The layers of isolation of a gVisor box on this machine. */
import { Effect } from "effect"
import { counted, disk, look, type ProbedHost, type Property, type Report, size } from "../box/Probe.ts"
import type { SizedFolders } from "../files/SizedFolders.ts"
import type { Limits } from "../host/Limits.ts"
import { USER } from "./Bundle.ts"
import type { HostRequirements } from "./HostRequirements.ts"
import { kernelClaim } from "./StartContainer.ts"

/** The advice for an operator when `runsc` fails. */
const helpFor = (complaint: string): string =>
  /ptrace|PTRACE/u.test(complaint)
    ? "gVisor must be allowed to trace what it starts: run sysctl -w kernel.yama.ptrace_scope=1, and let its container have SYS_PTRACE."
    : /namespace|clone|fork\/exec|operation not permitted/iu.test(complaint)
    ? "In a container, start it with --privileged; else see whether this works: runsc --network=none do true"
    : /permission denied/iu.test(complaint)
    ? "Users of sandboxes must be able to pass through the folders on the way there: chmod o+x."
    : "See whether this works: runsc --network=none --ignore-cgroups do true"

/** Limits that the machine enforces, seen in the container's kernel. */
const limitsOf = (
  { groups, service }: HostRequirements,
  limits: Limits,
  folders: SizedFolders | undefined,
  groupsOfBox: string
): Report => {
  const isGrouped = (name: "memory" | "processes" | "cpu") =>
    !("reason" in groups) && groupsOfBox.includes(`/${service}/`) && groups.limits.has(name)
  const limit = (name: "memory" | "cpu", detail: string): Property => {
    if ("reason" in groups) return { name, state: "off", detail: groups.reason }
    return isGrouped(name)
      ? { name, state: "in force", detail: `${detail}, control group v${groups.version}, with what gVisor itself takes` }
      : { name, state: "off", detail: "Its controller is not there." }
  }
  return [
    limit("memory", size(limits.memoryBytes)),
    {
      name: "processes",
      state: "in force",
      detail: `${limits.processes} for each process tree, RLIMIT_NPROC kept by gVisor` +
        (isGrouped("processes") ? "; its own threads on the machine by a control group" : "")
    },
    limit("cpu", `${limits.cpus} processors`),
    disk(limits, folders)
  ]
}

const programs = (lists: boolean, { version }: HostRequirements): Property =>
  lists
    ? { name: "programs of the machine", state: "in force", detail: "ls looks at a folder" }
    : {
      name: "programs of the machine",
      state: "off",
      detail: `ls and stat of this machine fail in boxes: gVisor ${version} does not know how they ask (statx with AT_NO_AUTOMOUNT). ` +
        "Agents do badly without them: use a newer runsc, such as that of Debian 13."
    }

/** Looks at a new box of `host`. Fails when it does not keep in what it should. */
export const run = Effect.fn("Probe.run")(function*(made: ProbedHost<HostRequirements>) {
  const { folders, limits, requirements } = made
  const { counted: processors, groups, lists, user } = yield* look(made, {
    helpFor,
    kernelClaim,
    leakHelp: "Boxes do not keep in what runs in them here; please report it.",
    insideUser: USER
  })
  const report: Report = [
    {
      name: "own kernel",
      state: "in force",
      detail: `gVisor ${requirements.version} by ${requirements.platform}, another one for each process tree`
    },
    {
      name: "own user",
      state: "in force",
      detail: `gVisor itself is ${user}, in a user namespace of its own; files are another user's, of the sandbox alone`
    },
    { name: "namespaces", state: "in force", detail: "user, pid, network, mount, IPC, UTS, around gVisor; nested ones are refused" },
    { name: "system calls", state: "in force", detail: "answered by gVisor alone, less those a filter refuses; no capabilities" },
    { name: "files", state: "in force", detail: "system read-only; workspace, home and scratch folder writable; the rest unseen" },
    { name: "network", state: "in force", detail: "no interface but its own loopback" },
    ...limitsOf(requirements, limits, folders, groups),
    programs(lists, requirements),
    counted(processors, limits)
  ]
  return report
})
