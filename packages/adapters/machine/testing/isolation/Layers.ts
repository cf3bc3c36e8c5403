/** The layers around a hostile program (`SECURITY.md`), how the suite removes each, and which attempts then succeed. */
import { Effect } from "effect"
import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import type { Name, Needs } from "./EscapeAttempts.ts"
import { CANARY, CANARY_VARIABLE, type Removal } from "./World.ts"

export interface Layer {
  readonly removal: Removal
  /** The attempts that succeed without it. */
  readonly lets: ReadonlyArray<Name>
  /** The message of the probe when it is missing; `undefined`: the probe does not look at it. */
  readonly probe?: string
  /** Elsewhere there is no such layer. */
  readonly needs?: Needs
}

/** Changes of bubblewrap's options, each of which NUL ends. */
const mayNest = String.raw`s/--disable-userns\0//`
const asOneUser: Removal = { requirements: (requirements) => ({ ...requirements, uids: null }) }

const everything = Object.assign(new Set(["everything.test:1"]), { has: () => true })

const all = {
  "own user": {
    needs: "root",
    removal: asOneUser,
    lets: ["read what is the service's alone, in a folder that boxes see"],
    probe: "A box does not run as a user of its own."
  },
  // One thing: only root's bubblewrap can do without the first.
  "user namespace and own user": {
    removal: { ...asOneUser, tools: { bwrap: String.raw`s/--unshare-user\0//; s/--[ug]id\0\d+\0//g; ${mayNest}` } },
    lets: []
  },
  "process namespace": {
    // No box may have a new /proc of the machine's processes: it is the machine's own then.
    removal: { tools: { bwrap: String.raw`s/--unshare-pid\0//; s/--proc\0/--ro-bind\0\/proc\0/` } },
    lets: ["read command lines of others", "outlive its worker"],
    probe: "A box sees processes of the machine."
  },
  "network namespace": {
    removal: { tools: { bwrap: String.raw`s/--unshare-net\0//` } },
    lets: [
      "reach a port of the machine's loopback interface",
      "reach a port of the machine at its own address",
      "reach an abstract unix socket of the machine"
    ],
    probe: "A box reaches the host's loopback interface."
  },
  "IPC namespace": { removal: { tools: { bwrap: String.raw`s/--unshare-ipc\0//` } }, lets: ["read shared memory of the machine"] },
  "UTS namespace": {
    removal: { tools: { bwrap: String.raw`s/--unshare-uts\0//; s/--hostname\0sandbox\0//` } },
    lets: ["learn the machine's name"]
  },
  "--disable-userns": { removal: { tools: { bwrap: mayNest } }, lets: [] },
  "files by allow list": {
    removal: { tools: { bwrap: String.raw`s/--chdir\0/--ro-bind\0\/\0\/machine\0--chdir\0/` } },
    lets: ["read a file of the machine"]
  },
  "read-only system": {
    removal: { tools: { bwrap: String.raw`s/--ro-bind/--bind/g` } },
    lets: ["change a program that other sandboxes run"]
  },
  "read-only root": {
    removal: { tools: { bwrap: String.raw`s/--remount-ro\0\/\0//` } },
    lets: ["put a file beside the system's"],
    probe: "A box can write to /"
  },
  "home files without links": {
    removal: {
      box: (box, home) => ({
        ...box,
        spawn: ({ homeFiles = {}, ...rest }) =>
          Effect.suspend(() => {
            for (const [path, content] of Object.entries(homeFiles)) {
              mkdirSync(dirname(join(home, path)), { recursive: true })
              writeFileSync(join(home, path), content)
            }
            return box.spawn(rest)
          })
      })
    },
    lets: ["have the host write its home files elsewhere, through a link"]
  },
  "no capabilities": {
    // And as root: for any other user bubblewrap makes a second user namespace, in which they are worth nothing.
    removal: { tools: { bwrap: String.raw`s/--cap-drop\0/--cap-add\0/; s/(?<=--[ug]id\0)\d+/0/g; ${mayNest}` } },
    lets: ["use a capability, to rename its machine"],
    probe: "A box has capabilities."
  },
  "system call filter": {
    removal: { tools: { bwrap: String.raw`s/--seccomp\0\d+\0//` } },
    lets: [
      "trace a process",
      "read a process's memory past the kernel's files",
      "keep something in the kernel's keyrings",
      "open a socket to the hypervisor (AF_VSOCK)"
    ],
    probe: "The system call filter is not in force."
  },
  "control groups": {
    needs: "control groups",
    removal: { options: { cgroupRoot: "/nowhere" } },
    lets: ["take 400 MiB of memory", "take a processor"]
  },
  "RLIMIT_NPROC": { removal: { tools: { prlimit: String.raw`s/--nproc=\d+\0//` } }, lets: [] },
  "size of files in memory": { removal: { tools: { bwrap: String.raw`s/--size\0\d+\0//g` } }, lets: ["fill memory with files"] },
  "disk, measured": {
    removal: { options: { diskLookMillis: 2 ** 31 - 1, diskGlanceMillis: 2 ** 31 - 1 } },
    lets: []
  },
  "disk, kept by the kernel": { needs: "sized folders", removal: { lackingSizes: "taken away" }, lets: [] },
  "RLIMIT_FSIZE": { removal: { tools: { prlimit: String.raw`s/--fsize=\d+\0//` } }, lets: ["write a file beyond its limit"] },
  "--die-with-parent": { removal: { tools: { bwrap: String.raw`s/--die-with-parent\0//` } }, lets: ["outlive its worker"] },
  "clean environment": {
    removal: { tools: { prlimit: `$ENV{${CANARY_VARIABLE}} = "${CANARY}"`, bwrap: String.raw`s/--clearenv\0//` } },
    lets: ["find the service's environment in its own"]
  },
  "egress allow list": { removal: { egress: { allow: everything } }, lets: ["reach a name that is not listed"] },
  "egress address check": { removal: { egress: { mayConnect: () => true } }, lets: ["reach a listed name that leads to a private address"] }
} satisfies Readonly<Record<string, Layer>>

export type LayerName = keyof typeof all

export const layers: Readonly<Record<LayerName, Layer>> = all

/** Layers that stop the same thing, each by itself: it comes off only without both. */
export const pairs: ReadonlyArray<
  { readonly layers: readonly [LayerName, LayerName]; readonly lets: ReadonlyArray<Name>; readonly needs?: Needs }
> = [
  { layers: ["process namespace", "own user"], lets: ["end another sandbox's process"] },
  {
    layers: ["process namespace", "user namespace and own user"],
    needs: "root",
    lets: ["read the environment of another sandbox's process"]
  },
  { layers: ["files by allow list", "own user"], lets: ["read another sandbox's tree, home and scratch folder"] },
  { layers: ["system call filter", "--disable-userns"], lets: ["become root in a user namespace of its own", "mount"] },
  { layers: ["system call filter", "no capabilities"], lets: ["open a raw socket", "open a packet socket"] },
  { layers: ["control groups", "RLIMIT_NPROC"], lets: ["start 200 processes"] },
  {
    layers: ["disk, measured", "disk, kept by the kernel"],
    lets: [
      "fill the disk and live on",
      "fill the disk with a file that it has deleted, and live on",
      "fill the disk with a program that it has deleted and runs, and live on",
      "fill the disk in a folder without permissions, and live on",
      "make files without number and live on"
    ]
  }
]

const both = (one: Removal, other: Removal): Removal => ({
  ...one,
  ...other,
  tools: Object.fromEntries((["bwrap", "prlimit"] as const).flatMap((tool) => {
    const changes = [one.tools?.[tool], other.tools?.[tool]].filter((change) => change !== undefined)
    return changes.length === 0 ? [] : [[tool, changes.join("; ")]]
  }))
})

/** Takes several away. */
export const without = (names: ReadonlyArray<LayerName>): Removal => names.map((name) => layers[name].removal).reduce(both, {})
