/**
 * Checks whether machines isolate their processes: has one made the usual way and looks at it from inside. Claims of its maker do not
 * count, and a layer that was not seen counts as missing.
 */
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import type { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { Report } from "@slipway/machine/box/Probe"
import { NotIsolated } from "@slipway/machine/host/NotIsolated"
import { loopback } from "@slipway/machine/network/Loopback"
import { Effect, Schema, Stream } from "effect"
import { randomUUID } from "node:crypto"
import { createServer } from "node:net"
import { networkInterfaces, release } from "node:os"
import { dirname } from "node:path"
import { PLACES } from "../machines/Machines.ts"

/**
 * The program that looks from inside. It is the standard input of Node, because a machine sees no file of ours. Its environment has the
 * places to look at, as JSON. It prints its findings in one line of JSON.
 */
const INSIDE = `
const fs = require("node:fs"), net = require("node:net"), os = require("node:os")
const asked = JSON.parse(process.env.ASKED)
const own = process.getuid()
const tried = (action) => { try { action(); return true } catch { return false } }
const status = fs.readFileSync("/proc/self/status", "utf8")
const row = (name) => (new RegExp("^" + name + ":[ \\\\t]*(.*)$", "m").exec(status) || [])[1] ?? null
const writes = (folder) => {
  const file = folder + "/.slipway-probe-" + process.pid
  return tried(() => { fs.writeFileSync(file, ""); fs.rmSync(file) })
}
const reads = (path) => tried(() => fs.statSync(path).isDirectory() ? fs.readdirSync(path) : fs.readFileSync(path))
const others = fs.readdirSync("/proc").filter((name) => /^\\d+$/.test(name)).flatMap((pid) => {
  try {
    const uid = Number(/^Uid:\\s*(\\d+)/m.exec(fs.readFileSync("/proc/" + pid + "/status", "utf8"))[1])
    return uid === own ? [] : [{ pid, uid, args: fs.readFileSync("/proc/" + pid + "/cmdline", "utf8").split("\\0") }]
  } catch { return [] }
})
const isFile = (path) => { try { return fs.statSync(path).isFile() } catch { return false } }
const descriptors = (pid) => {
  try { return fs.readdirSync("/proc/" + pid + "/fd").map((fd) => "/proc/" + pid + "/fd/" + fd) } catch { return [] }
}
const connects = ({ host, port }) => new Promise((resolve) => {
  const socket = net.connect({ host, port, timeout: 2000 })
  const done = (is) => () => { socket.destroy(); resolve(is) }
  socket.once("connect", done(true)).once("error", done(false)).once("timeout", done(false))
})
Promise.all(asked.addresses.map(connects)).then((reached) => console.log(JSON.stringify({
  uid: own,
  groups: (row("Groups") ?? "").split(/\\s+/).filter((word) => word !== "").map(Number),
  capabilities: row("CapEff") ?? "",
  noNewPrivileges: row("NoNewPrivs"),
  seccomp: row("Seccomp"),
  kernel: os.release(),
  others: others.length,
  signalled: others.filter(({ pid }) => tried(() => process.kill(Number(pid), 0))).length,
  opened: others.flatMap(({ args, pid }) => [
    ...["mem", "root"].map((name) => "/proc/" + pid + "/" + name).filter(reads),
    ...descriptors(pid).filter((path) => isFile(path) && reads(path)),
    ...args.filter((arg) => /^\\/.*\\.json$/.test(arg) && reads(arg))
  ]).length,
  read: asked.closed.filter(reads),
  written: [...asked.closed, ...asked.readOnly, ...asked.open].filter(writes),
  interfaces: Object.keys(os.networkInterfaces()).filter((name) => name !== "lo"),
  reached: asked.addresses.filter((_, i) => reached[i]).map(({ host }) => host)
})))
`

const Seen = Schema.fromJsonString(Schema.Struct({
  uid: Schema.Int,
  groups: Schema.Array(Schema.Int),
  capabilities: Schema.String,
  noNewPrivileges: Schema.NullOr(Schema.String),
  seccomp: Schema.NullOr(Schema.String),
  /** As it says its version. */
  kernel: Schema.String,
  /** Visible processes of other users: the runner. */
  others: Schema.Int,
  signalled: Schema.Int,
  /** Their readable parts: memory, files, open files, the settings they were started with. */
  opened: Schema.Int,
  read: Schema.Array(Schema.String),
  written: Schema.Array(Schema.String),
  interfaces: Schema.Array(Schema.String),
  reached: Schema.Array(Schema.String)
}))

/** A server of this machine that no sandbox may reach, and its addresses. */
const canary = Effect.map(
  Effect.acquireRelease(
    Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
      const server = createServer((socket) => socket.destroy())
      server.listen(0, () => {
        const address = server.address()
        resume(Effect.succeed({ port: address !== null && typeof address === "object" ? address.port : 0, close: () => server.close() }))
      })
    }),
    ({ close }) => Effect.sync(close)
  ),
  ({ port }) => [
    { host: loopback(), port },
    // Without addresses that need the name of an interface.
    ...Object.values(networkInterfaces()).flat().flatMap((one) =>
      one === undefined || one.internal || one.address.startsWith("fe80:") ? [] : [{ host: one.address, port }]
    )
  ]
)

const WITHIN = "3 minutes"

const HELP = "See docs/operating/machines.md for what a machine has to be, and try the program by itself."

/** Looks at a new machine of `host`. Fails if it does not isolate. `hidden`: folders of the worker's own that hold secrets. */
export const run = Effect.fn("Probe.run")(
  function*({ hidden, host }: { readonly host: SandboxHost["Service"]; readonly hidden: ReadonlyArray<string> }) {
    const sandboxId = SandboxId.make(
      `c_${[...randomUUID().replaceAll("-", "").slice(0, 12)].map((digit) => ID_ALPHABET[parseInt(digit, 16)]).join("")}`
    )
    const failed = (detail: string) => new NotIsolated({ missing: [detail], help: HELP })
    const addresses = yield* canary
    const box = yield* Effect.acquireRelease(
      Effect.mapError(host.provision({ sandboxId, fence: 1 }), ({ detail }) => failed(detail)),
      () => Effect.ignoreCause(host.stop(sandboxId))
    )
    const closed = [PLACES.state, ...hidden]
    const open = [box.workspace, box.home, "/tmp"]
    const readOnly = ["/", "/usr", "/etc", dirname(box.home)]
    const ASKED = JSON.stringify({ addresses, closed, open, readOnly })
    const boxed = yield* Effect.mapError(
      box.spawn({ command: "node", args: ["--input-type=commonjs", "-"], env: { ASKED } }),
      ({ detail }) => failed(`Node cannot be started in a machine: ${detail}`)
    )
    yield* Effect.andThen(boxed.write(INSIDE), boxed.endInput)
    const output = yield* Stream.mkString(Stream.decodeText(Stream.take(boxed.stdout, 16)))
    const { code } = yield* boxed.exited
    const complaint = (yield* boxed.stderrTail).trim().slice(-300)
    const seen = yield* Effect.mapError(
      Schema.decodeEffect(Seen)(output),
      () => failed(`A machine could not be looked at (${code}): ${complaint || "nothing was said of why"}.`)
    )
    const isOwnKernel = seen.kernel !== release()
    const written = (paths: ReadonlyArray<string>) => paths.filter((path) => seen.written.includes(path))
    const missing = [
      ...seen.uid === 0 ? ["Processes of a sandbox are root in its machine."] : [],
      ...seen.signalled > 0 || seen.opened > 0 ? ["Processes of a sandbox can end its runner, or read its memory or its settings."] : [],
      ...seen.read.includes(PLACES.state) || written([PLACES.state, dirname(box.home)]).length > 0
        ? ["Processes of a sandbox get at what is the runner's own."]
        : [],
      ...seen.read.some((path) => hidden.includes(path)) ? ["A machine sees files of the worker's own."] : [],
      ...written(readOnly).length > 0 ? [`A machine can write to ${written(readOnly).join(", ")}.`] : [],
      ...written(open).length < open.length
        ? [`A machine cannot write to ${open.filter((path) => !seen.written.includes(path)).join(", ")}.`]
        : [],
      ...(/[^0,]/u.test(seen.capabilities) ? ["Processes of a sandbox have capabilities."] : []),
      ...(seen.noNewPrivileges !== "1" && !(isOwnKernel && seen.noNewPrivileges === null)
        ? ["Programs in a machine can gain privileges."]
        : []),
      ...seen.reached.length > 0 ? [`A machine reaches the worker's own network: ${seen.reached.join(", ")}.`] : []
    ]
    const [one, ...more] = missing
    if (one !== undefined) return yield* new NotIsolated({ missing: [one, ...more], help: HELP })
    const report: Report = [
      {
        name: "own user",
        state: "in force",
        detail: `${seen.uid} in its machine; ${seen.others === 0 ? "of the runner it sees nothing" : "the runner is another"}`
      },
      { name: "files", state: "in force", detail: "tree, home and /tmp writable; the runner's settings and state unseen" },
      isOwnKernel
        ? { name: "kernel", state: "in force", detail: `${seen.kernel}, another than the worker's ${release()}` }
        : { name: "kernel", state: "off", detail: "It says the version of the worker's own: machines may share it." },
      seen.seccomp === "2"
        ? { name: "system calls", state: "in force", detail: "filter, no new privileges, no capabilities" }
        : isOwnKernel
        ? { name: "system calls", state: "in force", detail: "another kernel answers them; no capabilities" }
        : { name: "system calls", state: "off", detail: "No filter; no new privileges, no capabilities." },
      seen.interfaces.length === 0
        ? { name: "network", state: "in force", detail: "no interface but its own loopback; all goes through the worker" }
        : {
          name: "network",
          state: "off",
          detail: `It has ${seen.interfaces.join(", ")}, over which the worker's own addresses are not reached; ` +
            "what else is, is up to the machine's network. A machine needs to be dialled, and nothing more."
        },
      seen.groups.length > 0
        ? { name: "ends", state: "in force", detail: "whatever a process started ends with it, wherever it went" }
        : { name: "ends", state: "off", detail: "What leaves its group ends with the machine only: its runner was given no marks." },
      { name: "limits", state: "off", detail: "The maker of machines limits their memory, processes, processors and disk." }
    ]
    return report
  },
  Effect.scoped,
  (looking) =>
    Effect.timeoutOrElse(looking, {
      duration: WITHIN,
      orElse: () => Effect.fail(new NotIsolated({ missing: ["A machine was not made and looked at in time."], help: HELP }))
    })
)
