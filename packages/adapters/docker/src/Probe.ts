/** The isolation of a box of Docker on this machine, as the service reports it. */
import { counted, disk, look, ownUser, type ProbedHost, type Property, type Report, size } from "@slipway/machine/box/Probe"
import type { SizedFolders } from "@slipway/machine/files/SizedFolders"
import type { Limits } from "@slipway/machine/host/Limits"
import { Effect } from "effect"
import type { HostRequirements } from "./HostRequirements.ts"

const helpFor = (complaint: string): string =>
  /bind source path does not exist/u.test(complaint)
    ? "The daemon must run on this machine and find its folders where we do."
    : /docker-init/u.test(complaint)
    ? "The daemon needs its init program: apt-get install tini (or docker's own package)."
    : "See whether this works: docker run --rm --init --network none --read-only node:24-bookworm true"

/** The limits that this machine has, as the daemon reports them. */
const limitsOf = ({ kernel }: HostRequirements, limits: Limits, folders: SizedFolders | undefined): Report => {
  const limit = (name: string, inForce: boolean, detail: string): Property =>
    inForce
      ? { name, state: "in force", detail }
      : { name, state: "off", detail: "The daemon says that the kernel does not limit it here." }
  return [
    limit("memory", kernel.memory, `${size(limits.memoryBytes)} for each process tree`),
    limit("processes", kernel.processes, `${limits.processes} for each process tree`),
    limit("cpu", kernel.cpu, `${limits.cpus} processors for each process tree`),
    disk(limits, folders)
  ]
}

/** Looks at a new box of `host`. Fails if it does not isolate. */
export const run = Effect.fn("Probe.run")(function*(made: ProbedHost<HostRequirements>) {
  const { folders, limits, requirements } = made
  const { counted: processors, user } = yield* look(made, {
    helpFor,
    leakHelp: "The daemon must run on this machine, as root, without userns-remap, and its image must have sh and unshare.",
    insideUser: null
  })
  const report: Report = [
    ownUser(requirements.uids, user),
    {
      name: "namespaces",
      state: "in force",
      detail: `pid, network, mount, IPC, UTS, of Docker ${requirements.version}; nested ones are refused`
    },
    { name: "system calls", state: "in force", detail: "filter, no new privileges, no capabilities" },
    {
      name: "files",
      state: "in force",
      detail: `image ${requirements.image.name} read-only; workspace, home and scratch folder writable; the rest unseen`
    },
    { name: "network", state: "in force", detail: "no interface but its own loopback" },
    ...limitsOf(requirements, limits, folders),
    counted(processors, limits)
  ]
  return report
})
