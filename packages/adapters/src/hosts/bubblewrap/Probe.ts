/**
 * Whether boxes keep in what runs in them: makes one the usual way and looks at it, from inside and from the machine. What
 * was not seen counts as missing.
 */
import { randomUUID } from "node:crypto"
import { existsSync, readFileSync } from "node:fs"
import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises"
import { createServer } from "node:net"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Effect, Schema, Stream } from "effect"
import type { SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/sandbox/SandboxId"
import { deleteTree } from "../../git/DeleteTree.ts"
import * as Arguments from "./Arguments.ts"
import { countsPerNamespace } from "./Launch.ts"
import type { Limits } from "../box/Limits.ts"
import { NotIsolated } from "../box/NotIsolated.ts"
import type { Means } from "./Means.ts"

/** The program that looks from inside; a box must see it. */
export const inside = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "../box/Inside.ts" : "../box/Inside.js", import.meta.url))

export interface Property {
  readonly name: string
  /** `off`: it is not there, and boxes are safe to use without it. */
  readonly state: "in force" | "off"
  /** How it is enforced, or why it is not and what helps. */
  readonly detail: string
}

/** What was seen of a box. */
export type Report = ReadonlyArray<Property>

const Seen = Schema.fromJsonString(Schema.Struct({
  uid: Schema.Int,
  seccomp: Schema.String,
  noNewPrivileges: Schema.String,
  capabilities: Schema.String,
  interfaces: Schema.Array(Schema.String),
  processes: Schema.Int,
  hidden: Schema.Boolean,
  reached: Schema.Boolean,
  writable: Schema.Array(Schema.String),
  nests: Schema.NullOr(Schema.Boolean),
  filtered: Schema.Boolean,
  environment: Schema.Array(Schema.String)
}))

const readSetting = (file: string) => existsSync(file) ? readFileSync(file, "utf8").trim() : undefined

/** What helps when bubblewrap says no. */
const helpFor = (complaint: string): string => {
  if (/mount proc|remount|systempaths/iu.test(complaint) && /proc/u.test(complaint)) {
    return "This container hides parts of /proc: start it with --security-opt systempaths=unconfined."
  }
  if (/namespace|uid map|clone|Operation not permitted/iu.test(complaint)) {
    if (readSetting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") === "1") {
      return "AppArmor keeps user namespaces from bubblewrap: run sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give /usr/bin/bwrap a profile with \"userns\"."
    }
    if (readSetting("/proc/sys/kernel/unprivileged_userns_clone") === "0") return "Run: sysctl -w kernel.unprivileged_userns_clone=1"
    if (readSetting("/proc/sys/user/max_user_namespaces") === "0") return "Run: sysctl -w user.max_user_namespaces=10000"
    return "In a container, start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined, as a normal user."
  }
  if (/Permission denied/u.test(complaint)) return "Users of sandboxes must be able to pass through the folders on the way there: chmod o+x."
  return "See whether this works for a normal user: bwrap --unshare-all --ro-bind / / true"
}

const size = (bytes: number) => bytes >= 2 ** 30 ? `${Math.round(bytes / 2 ** 30 * 10) / 10} GiB` : `${Math.round(bytes / 2 ** 20)} MiB`

/** A server that nobody may reach. */
const canary = Effect.acquireRelease(
  Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
    const server = createServer((socket) => socket.destroy())
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      resume(Effect.succeed({ port: address !== null && typeof address === "object" ? address.port : 0, close: () => server.close() }))
    })
  }),
  ({ close }) => Effect.sync(close)
)

/** Limits that the machine enforces, seen in the process itself. */
const limitsOf = (means: Means, limits: Limits, groupsOfBox: string, own: boolean): Report => {
  const { groups } = means
  const reason = "reason" in groups ? groups.reason : "Its controller is not there."
  const version = "reason" in groups ? "" : `control group v${groups.version}`
  const entered = groupsOfBox.includes(`/${means.service}/`)
  const grouped = (limit: "memory" | "processes" | "cpu") => entered && !("reason" in groups) && groups.limits.has(limit)
  return [
    grouped("memory")
      ? { name: "memory", state: "in force", detail: `${size(limits.memoryBytes)}, ${version}` }
      : { name: "memory", state: "off", detail: reason },
    grouped("processes") || own || countsPerNamespace()
      ? {
        name: "processes",
        state: "in force",
        detail: `${limits.processes}, ${[...(grouped("processes") ? [version] : []), own ? "RLIMIT_NPROC of its user" : "RLIMIT_NPROC of each process tree"].join(" and ")}`
      }
      : { name: "processes", state: "off", detail: reason },
    grouped("cpu")
      ? { name: "cpu", state: "in force", detail: `${limits.cpus} processors, ${version}` }
      : { name: "cpu", state: "off", detail: reason },
    { name: "disk", state: "in force", detail: `${size(limits.diskBytes)} and ${limits.diskFiles} files, measured while it runs; ${size(limits.fileBytes)} a file, RLIMIT_FSIZE` }
  ]
}

/** Looks at a new box of `host`. Fails when it does not keep in what it should. */
export const run = Effect.fn("Probe.run")(
  function*({ host, limits, means }: { readonly host: SandboxHost["Service"]; readonly limits: Limits; readonly means: Means }) {
    const sandboxId = SandboxId.make(`c_${[...randomUUID().replaceAll("-", "").slice(0, 12)].map((digit) => ID_ALPHABET[parseInt(digit, 16)]).join("")}`)
    const folder = join(means.directory, `probe-${randomUUID()}`)
    const [workspace, hidden] = [join(folder, "workspace"), join(folder, "hidden")]
    yield* Effect.acquireRelease(
      Effect.promise(async () => {
        await mkdir(folder, { mode: 0o711 })
        await chmod(folder, 0o711)
        await writeFile(hidden, "canary", { mode: 0o644 })
      }),
      () => deleteTree(folder)
    )
    const { port } = yield* canary
    const failed = (detail: string) => new NotIsolated({ missing: [detail], help: helpFor(detail) })
    const box = yield* Effect.acquireRelease(
      Effect.mapError(host.provision({ sandboxId, workspace }), ({ detail }) => failed(detail)),
      () => Effect.ignoreCause(host.stop(sandboxId))
    )

    const closed = ["/", "/usr", "/etc", "/dev", "/run", "/proc/sys/kernel", "/sys/fs/cgroup"]
    const open = [Arguments.WORKSPACE, box.home, Arguments.SCRATCH, "/tmp", "/dev/shm"]
    const boxed = yield* Effect.mapError(
      box.spawn({ command: "sh", args: ["-c", 'touch "$1"; read -r _; shift; exec "$@"', "probe", `${Arguments.WORKSPACE}/mine`, process.execPath, inside, hidden, `${port}`, ...closed, ...open], env: {} }),
      ({ detail }) => failed(detail)
    )
    const groupsOfBox = yield* Effect.promise(() => readFile(`/proc/${boxed.pid}/cgroup`, "utf8").catch(() => ""))
    const user = yield* Effect.promise(() => readFile(`/proc/${boxed.pid}/status`, "utf8").then((status) => Number(/^Uid:\t(\d+)/mu.exec(status)?.[1]), () => Number.NaN))
    yield* boxed.write("\n")
    const output = yield* Stream.mkString(Stream.decodeText(boxed.stdout))
    const { code } = yield* boxed.exited
    const complaint = (yield* boxed.stderrTail).trim().slice(-300)
    if (code !== 0) return yield* failed(`A box could not be made: ${complaint || "bubblewrap says nothing of it"}.`)
    const seen = yield* Effect.mapError(Schema.decodeEffect(Seen)(output), () => failed(`A box could not be looked at: ${complaint || output.slice(0, 300)}`))
    const owner = yield* Effect.promise(() => stat(join(workspace, "mine")).then(({ uid }) => uid, () => Number.NaN))

    const own = means.uids !== null
    const wanted = own ? (yield* Effect.promise(() => means.uids?.list() ?? Promise.resolve([]))).find(({ name }) => name === sandboxId)?.uid : process.getuid?.()
    const missing = [
      ...(wanted === undefined || wanted === 0 || user !== wanted || owner !== wanted ? ["A box does not run as a user of its own."] : []),
      ...(seen.uid !== 1000 ? ["A box has not the user it should."] : []),
      ...(seen.seccomp !== "2" || !seen.filtered ? ["The system call filter is not in force."] : []),
      ...(seen.noNewPrivileges !== "1" ? ["Programs in a box can gain privileges."] : []),
      ...(/[^0,]/u.test(seen.capabilities) ? ["A box has capabilities."] : []),
      ...(seen.nests !== false ? [seen.nests === null ? "Whether a box can make namespaces could not be seen: the program unshare is missing." : "A box can make namespaces."] : []),
      ...(seen.interfaces.some((name) => name !== "lo") ? [`A box has network interfaces: ${seen.interfaces.join(", ")}.`] : []),
      ...(seen.reached ? ["A box reaches the host's loopback interface."] : []),
      ...(seen.processes > 10 ? ["A box sees processes of the machine."] : []),
      ...(seen.hidden ? [] : ["A box sees files of the machine."]),
      ...(closed.some((path) => seen.writable.includes(path)) ? [`A box can write to ${seen.writable.filter((path) => closed.includes(path)).join(", ")}.`] : []),
      ...(open.every((path) => seen.writable.includes(path)) ? [] : [`A box cannot write to ${open.filter((path) => !seen.writable.includes(path)).join(", ")}.`])
    ]
    const [one, ...more] = missing
    if (one !== undefined) return yield* new NotIsolated({ missing: [one, ...more], help: "Boxes do not keep in what runs in them here; please report it." })

    const report: Report = [
      own
        ? { name: "own user", state: "in force", detail: `${user}, another one for each sandbox` }
        : { name: "own user", state: "off", detail: `All sandboxes run as our user ${user}; namespaces still keep them apart. Run the service as root to give each its own.` },
      { name: "namespaces", state: "in force", detail: "user, pid, network, mount, IPC, UTS; nested ones are refused" },
      { name: "system calls", state: "in force", detail: "filter, no new privileges, no capabilities" },
      { name: "files", state: "in force", detail: "system read-only; workspace, home and scratch folder writable; the rest unseen" },
      { name: "network", state: "in force", detail: "no interface but its own loopback" },
      ...limitsOf(means, limits, groupsOfBox, own)
    ]
    return report
  },
  Effect.scoped
)
