/**
 * Whether boxes keep in what runs in them: makes one the usual way and looks at it, from inside and from the machine. What
 * was not seen counts as missing.
 */
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import type { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Schema, Stream } from "effect"
import { randomUUID } from "node:crypto"
import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises"
import { createServer } from "node:net"
import { availableParallelism, release } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { SCRATCH, WORKSPACE } from "../files/BoxPaths.ts"
import * as DiskUse from "../files/DiskUse.ts"
import type { ServiceFolder } from "../files/ServiceFolder.ts"
import type { SizedFolders } from "../files/SizedFolders.ts"
import type { Limits } from "../host/Limits.ts"
import { NotIsolated } from "../host/NotIsolated.ts"
import { loopback } from "../network/Loopback.ts"
import { deleteTree } from "../node/DeleteTree.ts"
import { filesOf } from "../overlay/DiskImages.ts"

/** The program that looks from inside; a box must see it. */
export const inside = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./IsolationProbe.main.ts" : "./IsolationProbe.main.js", import.meta.url)
)

export interface Property {
  readonly name: string
  /** `off`: it is not there, and boxes are safe to use without it. */
  readonly state: "in force" | "off"
  /** How it is enforced, or why it is not and what helps. */
  readonly detail: string
}

/** How many processors there are, to programs. */
interface Counted {
  readonly nproc: number | null
  readonly processors: number
}

/** The properties of a box that a look found. */
export type Report = ReadonlyArray<Property>

const Seen = Schema.fromJsonString(Schema.Struct({
  uid: Schema.Int,
  seccomp: Schema.String,
  noNewPrivileges: Schema.NullOr(Schema.String),
  /** As it says its version. */
  kernel: Schema.String,
  /** Whether `ls` can look at a folder. */
  lists: Schema.Boolean,
  capabilities: Schema.String,
  interfaces: Schema.Array(Schema.String),
  processes: Schema.Int,
  hidden: Schema.Boolean,
  reached: Schema.Boolean,
  writable: Schema.Array(Schema.String),
  nests: Schema.NullOr(Schema.Boolean),
  filtered: Schema.Boolean,
  /** As Node counts them, and as `nproc` does where it is there. */
  processors: Schema.Int,
  nproc: Schema.NullOr(Schema.Int),
  environment: Schema.Array(Schema.String)
}))

/** Bytes, for people. */
export const size = (bytes: number): string =>
  bytes >= 2 ** 30 ? `${Math.round(bytes / 2 ** 30 * 10) / 10} GiB` : `${Math.round(bytes / 2 ** 20)} MiB`

/** The limit of the disk, and who keeps it. */
export const disk = (limits: Limits, folders: SizedFolders | undefined): Property => {
  const isKept = folders?.lacking === null
  const files = isKept ? filesOf(limits) : limits.diskFiles
  const way = isKept ? "kept by the kernel: a file system for each sandbox" : DiskUse.way(folders?.lacking ?? null)
  return {
    name: "disk",
    state: "in force",
    detail: `${size(limits.diskBytes)} and ${files} files, ${way}; ${size(limits.fileBytes)} a file, RLIMIT_FSIZE`
  }
}

/** The property "own user", by the user that {@link look} saw. */
export const ownUser = (uids: ServiceFolder["uids"], user: number): Property =>
  uids === null
    ? {
      name: "own user",
      state: "off",
      detail: `All sandboxes run as our user ${user}; namespaces still keep them apart. Run the service as root to give each its own.`
    }
    : { name: "own user", state: "in force", detail: `${user}, another one for each sandbox` }

/** The property "processors seen": `limit` has the processors that a box may use. */
export const counted = ({ nproc, processors }: Counted, { cpus }: Limits): Property => {
  const name = "processors seen"
  const machine = availableParallelism()
  const wanted = Math.min(Math.ceil(cpus), machine)
  const said = nproc === null
    ? `Node counts ${processors}`
    : `nproc says ${nproc}${nproc === processors ? "" : `, and Node counts ${processors}`}`
  return processors === wanted && (nproc ?? wanted) === wanted
    ? { name, state: "in force", detail: `${said}, of ${machine}` }
    : { name, state: "off", detail: `${said}, where a sandbox may use ${cpus} of ${machine}.` }
}

const NOBODY = 65_534

/** A server on the host's loopback that boxes must not reach. */
const canary = Effect.acquireRelease(
  Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
    const server = createServer((socket) => socket.destroy())
    server.listen(0, loopback(), () => {
      const address = server.address()
      resume(Effect.succeed({ port: address !== null && typeof address === "object" ? address.port : 0, close: () => server.close() }))
    })
  }),
  ({ close }) => Effect.sync(close)
)

/** A host and the options that its probe needs. */
export interface ProbedHost<Requirements extends ServiceFolder = ServiceFolder> {
  /** A folder for the probe is made in its directory. */
  readonly requirements: Requirements
  readonly host: SandboxHost["Service"]
  readonly limits: Limits
  readonly folders: SizedFolders | undefined
  /** As `host` was given it. */
  readonly workspaceOf: (sandboxId: SandboxId) => string
}

interface Expectation {
  /** The advice for an operator when the box is refused with this message. */
  readonly helpFor: (complaint: string) => string
  /** The advice for an operator when a box is made but does not isolate. */
  readonly leakHelp: string
  /** The user number of processes inside, `null` if it is the machine's. */
  readonly insideUser: number | null
  /**
   * For boxes with a kernel of their own: the claim of the kernel's user id, which is all that the machine sees of them. The kernel may
   * run as user 65534 instead, in a user namespace without other users.
   */
  readonly kernelClaim?: (sandboxId: SandboxId) => string
}

/**
 * Looks at a new box of `host`. Fails when it does not keep in what it should. Answers the user that the machine knows its
 * processes by, their control groups as `/proc/<pid>/cgroup` has them, how many processors they count, and whether `ls` works.
 */
export const look = Effect.fn("Probe.look")(
  function*(
    { folders, host, requirements: { directory, uids }, workspaceOf }: ProbedHost,
    { helpFor, insideUser, kernelClaim, leakHelp }: Expectation
  ) {
    const sandboxId = SandboxId.make(
      `c_${[...randomUUID().replaceAll("-", "").slice(0, 12)].map((digit) => ID_ALPHABET[parseInt(digit, 16)]).join("")}`
    )
    const folder = join(directory, `probe-${randomUUID()}`)
    const [workspace, hidden] = [workspaceOf(sandboxId), join(folder, "hidden")]
    yield* Effect.acquireRelease(
      Effect.promise(async () => {
        await mkdir(folder, { mode: 0o711 })
        await chmod(folder, 0o711)
        await writeFile(hidden, "canary", { mode: 0o644 })
      }),
      () => Effect.all([deleteTree(workspace), folders === undefined ? Effect.void : folders.remove(sandboxId), deleteTree(folder)])
    )
    const { port } = yield* canary
    const failed = (detail: string) => new NotIsolated({ missing: [detail], help: helpFor(detail) })
    const box = yield* Effect.acquireRelease(
      Effect.mapError(host.provision({ sandboxId, fence: 1 }), ({ detail }) => failed(detail)),
      () => Effect.ignoreCause(host.stop(sandboxId))
    )

    const closed = ["/", "/usr", "/etc", "/dev", "/run", "/proc/sys/kernel", "/sys/fs/cgroup"]
    const open = [WORKSPACE, box.home, SCRATCH, "/tmp", "/dev/shm"]
    const boxed = yield* Effect.mapError(
      box.spawn({
        command: "sh",
        args: ["-c", "touch \"$1\"; read -r _; shift; exec \"$@\"", "probe", `${WORKSPACE}/mine`, process.execPath, inside, hidden,
          loopback(), `${port}`, ...closed, ...open],
        env: {}
      }),
      ({ detail }) => failed(detail)
    )
    const groups = yield* Effect.promise(() => readFile(`/proc/${boxed.pid}/cgroup`, "utf8").catch(() => ""))
    const user = yield* Effect.promise(() =>
      readFile(`/proc/${boxed.pid}/status`, "utf8").then((status) => Number(/^Uid:\t(\d+)/mu.exec(status)?.[1]), () => Number.NaN)
    )
    yield* boxed.write("\n")
    const output = yield* Stream.mkString(Stream.decodeText(boxed.stdout))
    const { code } = yield* boxed.exited
    const complaint = (yield* boxed.stderrTail).trim().slice(-300)
    if (code !== 0) return yield* failed(`A box could not be made: ${complaint || "nothing was said of why"}.`)
    const seen = yield* Effect.mapError(
      Schema.decodeEffect(Seen)(output),
      () => failed(`A box could not be looked at: ${complaint || output.slice(0, 300)}`)
    )
    const owner = yield* Effect.promise(() => stat(join(workspace, "mine")).then(({ uid }) => uid, () => Number.NaN))
    const claims = uids === null ? [] : yield* Effect.promise(() => uids.list())
    const claimed = (name: string) => uids === null ? process.getuid?.() : claims.find((claim) => claim.name === name)?.uid
    const wanted = claimed(sandboxId)
    const isOwnKernel = kernelClaim !== undefined
    const runsAs = isOwnKernel ? [claimed(kernelClaim(sandboxId)), NOBODY] : [wanted]

    const missing = [
      ...(Number.isNaN(owner) ? ["What a box writes to its workspace does not appear on this machine."] : []),
      ...(wanted === undefined || wanted === 0 || user === 0 || !runsAs.includes(user) || owner !== wanted
        ? ["A box does not run as a user of its own."]
        : []),
      ...(seen.uid !== (insideUser ?? wanted) ? ["A box has not the user it should."] : []),
      ...(seen.seccomp !== "2" || !seen.filtered ? ["The system call filter is not in force."] : []),
      ...(isOwnKernel && seen.kernel === release() ? ["A box runs on the machine's own kernel."] : []),
      ...(seen.noNewPrivileges !== "1" && !(isOwnKernel && seen.noNewPrivileges === null)
        ? ["Programs in a box can gain privileges."]
        : []),
      ...(/[^0,]/u.test(seen.capabilities) ? ["A box has capabilities."] : []),
      ...(seen.nests !== false
        ? [
          seen.nests === null
            ? "Whether a box can make namespaces could not be seen: the program unshare is missing."
            : "A box can make namespaces."
        ]
        : []),
      ...(seen.interfaces.some((name) => name !== "lo") ? [`A box has network interfaces: ${seen.interfaces.join(", ")}.`] : []),
      ...(seen.reached ? ["A box reaches the host's loopback interface."] : []),
      ...(seen.processes > 10 ? ["A box sees processes of the machine."] : []),
      ...(seen.hidden ? [] : ["A box sees files of the machine."]),
      ...(closed.some((path) => seen.writable.includes(path))
        ? [`A box can write to ${seen.writable.filter((path) => closed.includes(path)).join(", ")}.`]
        : []),
      ...(open.every((path) => seen.writable.includes(path))
        ? []
        : [`A box cannot write to ${open.filter((path) => !seen.writable.includes(path)).join(", ")}.`])
    ]
    const [one, ...more] = missing
    if (one !== undefined) return yield* new NotIsolated({ missing: [one, ...more], help: leakHelp })
    const counted: Counted = seen
    return { user, groups, counted, lists: seen.lists }
  },
  Effect.scoped
)
