/**
 * The layers around a hostile program in a machine of the worked example (`SECURITY.md`), how the suite removes each, and which attempts
 * then succeed.
 */
import type { Needs } from "@slipway/machine/testing/isolation/EscapeAttempts"
import { layers as ofGvisor } from "@slipway/machine/testing/isolation/GvisorLayers"
import { layers as ofBubblewrap } from "@slipway/machine/testing/isolation/Layers"
import type { Kind } from "../Machines.fixture.ts"
import type { Name } from "./MachinesAttempts.ts"
import type { Removal } from "./MachinesWorld.ts"

export interface Layer {
  readonly removal: Removal
  /** The attempts that succeed without it. */
  readonly lets: ReadonlyArray<Name>
  /** The message of the probe when it is missing; `undefined`: the probe does not look at it. */
  readonly probe?: string
  /** Elsewhere there is no such layer. */
  readonly needs?: Needs
}

type Layers = Readonly<Record<string, Layer>>

interface Pair {
  readonly layers: readonly [string, string]
  readonly lets: ReadonlyArray<Name>
}

/** The network is the machine's own then, where one port serves one. */
const NO_WAYS = "order.settings.ways = []"

/** A runner that sees all processes of a machine ends those of its user, also those of other sandboxes: here they are unowned. */
const NO_MARKS = "order.settings.user = { uid: 54321, gid: 54321 }"

const ofProcesses: ReadonlyArray<Name> = [
  "read command lines of others",
  "read the environment of another sandbox's process",
  "end another sandbox's process"
]
const ofNetworks: ReadonlyArray<Name> = [
  "reach a port of the machine's loopback interface",
  "reach a port of the machine at its own address",
  "reach an abstract unix socket of the machine"
]
const ofCalls: ReadonlyArray<Name> = [
  "trace a process",
  "read a process's memory past the kernel's files",
  "keep something in the kernel's keyrings",
  "open a socket to the hypervisor (AF_VSOCK)",
  "become root in a user namespace of its own",
  "mount"
]
const ofGroups: ReadonlyArray<Name> = ["take 400 MiB of memory", "take a processor", "start 200 processes"]

const ownUser: Layer = {
  removal: { order: "delete order.settings.user" },
  lets: [
    "read what is the service's alone, in a folder that boxes see",
    "read what its runner keeps",
    "open what its runner has open",
    "signal its runner"
  ],
  probe: "Processes of a sandbox are root in its machine."
}

const shared: Layers = {
  "own user": { ...ownUser, lets: [...ownUser.lets, "read its runner's environment", "read its runner's memory"] },
  "marks of processes": { removal: { order: "delete order.settings.user.marks" }, lets: ["outlive its worker"] },
  "disk of its own": {
    needs: "sized folders",
    removal: { isDiskless: true },
    lets: [
      "fill the disk and live on",
      "fill the disk with a file that it has deleted, and live on",
      "fill the disk with a program that it has deleted and runs, and live on",
      "fill the disk in a folder without permissions, and live on",
      "make files without number and live on"
    ]
  },
  "egress allow list": {
    removal: { egress: ofBubblewrap["egress allow list"].removal.egress ?? {} },
    lets: ["reach a name that is not listed"]
  },
  "egress address check": {
    removal: { egress: ofBubblewrap["egress address check"].removal.egress ?? {} },
    lets: ["reach a listed name that leads to a private address"]
  }
}

const bubblewrap: Layers = {
  ...shared,
  "process namespace": {
    removal: { order: NO_MARKS, bwrap: String.raw`s/--unshare-pid\0//; s/--proc\0/--ro-bind\0\/proc\0/` },
    lets: ofProcesses
  },
  "network namespace": {
    removal: { order: NO_WAYS, bwrap: String.raw`s/--unshare-net\0//` },
    lets: ofNetworks,
    probe: "A machine reaches the worker's own network"
  },
  "IPC namespace": { removal: { bwrap: String.raw`s/--unshare-ipc\0//` }, lets: ["read shared memory of the machine"] },
  "UTS namespace": {
    removal: { bwrap: String.raw`s/--unshare-uts\0//; s/--hostname\0sandbox\0//` },
    lets: ["learn the machine's name"]
  },
  "files by allow list": {
    removal: { bwrap: String.raw`s/--remount-ro\0/--ro-bind\0\/\0\/machine\0--remount-ro\0/` },
    lets: ["read a file of the machine"]
  },
  "read-only system": { removal: { bwrap: String.raw`s/--ro-bind/--bind/g` }, lets: ["change a program that other sandboxes run"] },
  "read-only root": { removal: { bwrap: String.raw`s/--remount-ro\0\/\0//` }, lets: [] },
  "no more capabilities": { removal: { bwrap: String.raw`s/--cap-add\0/--cap-add\0CAP_SYS_ADMIN\0--cap-add\0/` }, lets: [] },
  "system call filter": { removal: { bwrap: String.raw`s/--seccomp\0\d+\0//` }, lets: ofCalls },
  "control groups": { needs: "control groups", removal: { variables: { MACHINES_GROUPS: "/nowhere" } }, lets: ofGroups },
  "size of files in memory": { removal: { bwrap: String.raw`s/--size\0\d+\0//g` }, lets: ["fill memory with files"] }
}

const docker: Layers = {
  ...shared,
  "process namespace": {
    removal: { order: NO_MARKS, docker: String.raw`s/--network\0/--pid\0host\0--network\0/` },
    lets: ofProcesses
  },
  "network namespace": {
    removal: { order: NO_WAYS, docker: String.raw`s/--network\0none\0/--network\0host\0/` },
    lets: ofNetworks,
    probe: "A machine reaches the worker's own network"
  },
  "IPC namespace": {
    removal: { docker: String.raw`s/--network\0/--ipc\0host\0--network\0/` },
    lets: ["read shared memory of the machine"]
  },
  "UTS namespace": { removal: { docker: String.raw`s/--network\0/--uts\0host\0--network\0/` }, lets: ["learn the machine's name"] },
  "files by allow list": {
    removal: { docker: String.raw`s/--volume\0/--volume\0\/:\/machine:ro\0--volume\0/` },
    lets: ["read a file of the machine"]
  },
  "read-only system": { removal: { docker: String.raw`s/:ro\0/\0/g` }, lets: ["change a program that other sandboxes run"] },
  "read-only root": { removal: { docker: String.raw`s/--read-only\0//` }, lets: [] },
  "no more capabilities": { removal: { docker: String.raw`s/--cap-add\0/--cap-add\0SYS_ADMIN\0--cap-add\0/` }, lets: [] },
  "system call filter": { removal: { docker: String.raw`s/seccomp=[^\0]*/seccomp=unconfined/` }, lets: ofCalls },
  "control groups": {
    needs: "control groups",
    removal: { docker: String.raw`s/--(?:memory|memory-swap|pids-limit|cpus)\0[\d.]+\0//g` },
    lets: ofGroups
  },
  "size of files in memory": {
    removal: { docker: String.raw`s/,size=\d+//; s/--shm-size\0\d+\0//` },
    lets: ["fill memory with files"]
  }
}

const runscOf = (name: keyof typeof ofGvisor) => ofGvisor[name].removal.runsc ?? ""

const gvisor: Layers = {
  ...shared,
  "own user": ownUser,
  "network of its own": {
    removal: {
      order: NO_WAYS,
      runsc: `
        $_ = "--network=host" for grep { $_ eq "--network=none" } @ARGV;
        $config->{linux}{namespaces} = [grep { $_->{type} ne "network" } @{$config->{linux}{namespaces}}]`
    },
    lets: ofNetworks.slice(0, 2),
    probe: "A machine reaches the worker's own network"
  },
  "no sockets of the machine": { removal: { runsc: "s/^--host-uds=create$/--host-uds=all/ for @ARGV" }, lets: [] },
  "files by allow list": { removal: { runsc: runscOf("files by allow list") }, lets: ["read a file of the machine"] },
  "read-only system": { removal: { runsc: runscOf("read-only system") }, lets: ["change a program that other sandboxes run"] },
  "read-only root": { removal: { runsc: "$config->{root}{readonly} = JSON::PP::false" }, lets: [] },
  "no more capabilities": {
    removal: { runsc: "push @{$config->{process}{capabilities}{$_}}, \"CAP_SYS_ADMIN\" for qw(bounding effective permitted)" },
    lets: []
  },
  "system call filter": {
    removal: { runsc: runscOf("system call filter") },
    lets: ["trace a process", "become root in a user namespace of its own"]
  },
  "control groups": {
    needs: "control groups",
    removal: { variables: { MACHINES_GROUPS: "/nowhere" } },
    lets: ["take 400 MiB of memory", "take a processor"]
  },
  "RLIMIT_NPROC": {
    // And without groups, which count what gVisor takes of the machine for them.
    removal: {
      variables: { MACHINES_GROUPS: "/nowhere" },
      runsc: `$config->{process}{rlimits} = []`
    },
    lets: ["start 200 processes"]
  },
  "size of files in memory": { removal: { runsc: runscOf("size of files in memory") }, lets: ["fill memory with files"] }
}

/**
 * An attacker who has removed these, and has the worker's key, speaks to its runner. In gVisor no program reaches a socket of the machine,
 * which the runner's own is.
 */
export const beforeTheKey: Readonly<Record<Kind, ReadonlyArray<string>>> = {
  bubblewrap: ["own user"],
  docker: ["own user"],
  gvisor: ["own user", "no sockets of the machine"]
}

export const layersOf: Readonly<Record<Kind, Layers>> = { bubblewrap, docker, gvisor }

/** Layers that stop the same thing, each by itself: it comes off only without both. */
const pairs: ReadonlyArray<Pair> = [
  {
    layers: ["files by allow list", "own user"],
    lets: [
      "read another sandbox's tree, home and scratch folder",
      "read what is kept of another sandbox's machine",
      "read the keys that make a worker of somebody"
    ]
  },
  { layers: ["read-only root", "own user"], lets: ["put a file beside the system's"] },
  { layers: ["read-only system", "own user"], lets: ["write to its runner's program"] },
  { layers: ["no more capabilities", "own user"], lets: ["use a capability, to rename its machine"] }
]

const traced: Pair = { layers: ["system call filter", "own user"], lets: ["trace its runner"] }

export const pairsOf: Readonly<Record<Kind, ReadonlyArray<Pair>>> = {
  bubblewrap: [...pairs, traced],
  docker: [...pairs, traced],
  gvisor: pairs
}

const texts = (parts: ReadonlyArray<string | undefined>, between: string) => {
  const there = parts.filter((part) => part !== undefined)
  return there.length === 0 ? undefined : there.join(between)
}

const both = (one: Removal, other: Removal): Removal => {
  const joined = (["order", "bwrap", "docker", "runsc"] as const).flatMap((name) => {
    const text = texts([one[name], other[name]], ";\n")
    return text === undefined ? [] : [[name, text]]
  })
  return { ...one, ...other, ...Object.fromEntries(joined), variables: { ...one.variables, ...other.variables } }
}

/** Takes several away. */
export const without = (kind: Kind, names: ReadonlyArray<string>): Removal =>
  names.flatMap((name) => {
    const layer = layersOf[kind][name]
    return layer === undefined ? [] : [layer.removal]
  }).reduce(both, {})
