/**
 * One host of one checkout, in a process of its own. What is asked of it is measured here, through the port, as a worker uses it. It knows
 * the port as it was before machines, too: that took the workspace with each call.
 */
import * as SandboxHostDocker from "@slipway/docker/SandboxHostDocker"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as SandboxHostBubblewrap from "@slipway/machine/bubblewrap/SandboxHostBubblewrap"
import * as Egress from "@slipway/machine/egress/Egress"
import * as SizedFolders from "@slipway/machine/files/SizedFolders"
import * as SandboxHostGvisor from "@slipway/machine/gvisor/SandboxHostGvisor"
import { defaults } from "@slipway/machine/host/Limits"
import * as Spawner from "@slipway/machine/node/spawner/Spawner"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import { Context, Effect, Layer, ManagedRuntime, References, Stream } from "effect"
import { mkdirSync } from "node:fs"
import path from "node:path"
import * as Protocol from "../api/Protocol.ts"
import { type Amounts, type Boot, INSTALLATION, type Round, type SideOptions, type Way } from "./Round.ts"

const { folder, image, program, socket, way } = Protocol.options<SideOptions>()
const trees = path.join(folder, "trees")

/** As the service lays trees out. */
const workspaceOf = (sandboxId: SandboxId): string => path.join(trees, "sandboxes", sandboxId, "workspace")

class Folders extends Context.Service<Folders, SizedFolders.SizedFolders>()("bench/Folders") {
  static readonly layer = Layer.effect(
    Folders,
    SizedFolders.make({
      directory: trees,
      limits: defaults,
      overlays: way === "bubblewrap",
      ...way === "none" || way === "machines" ? { lacking: "there are no boxes of this machine" } : {}
    })
  )
}

const isolated = <E, R>(made: Effect.Effect<{ readonly host: SandboxHost["Service"] }, E, R>) =>
  Layer.effect(SandboxHost, Effect.map(made, ({ host }) => host))

/** How long the last machine was waited for. */
let machine = 0

const timed = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const began = performance.now()
    return Effect.ensuring(self, Effect.sync(() => void (machine = performance.now() - began)))
  })

/** Not at the top: the checkout of before has none of these. */
const machines = Effect.promise(async () => {
  const SandboxHostRunner = await import("@slipway/runner/host/SandboxHostRunner")
  const MachinesByCommand = await import("@slipway/runner/machines/MachinesByCommand")
  const { Machines } = await import("@slipway/runner/machines/Machines")
  const made = MachinesByCommand.make({ program, installation: INSTALLATION })
  return Layer.provide(
    SandboxHostRunner.layer({ directory: path.join(folder, "known") }),
    Layer.succeed(Machines, { ...made, ensure: (order) => timed(made.ensure(order)) })
  )
})

const host = Effect.gen(function*() {
  const options = { directory: path.join(folder, "boxes"), workspaceOf, folders: yield* Folders }
  const hosts: Readonly<Record<Way, Effect.Effect<Layer.Layer<SandboxHost, unknown, Egress.Egress>>>> = {
    none: Effect.succeed(SandboxHostNone.layer(options)),
    bubblewrap: Effect.succeed(isolated(SandboxHostBubblewrap.make(options))),
    gvisor: Effect.succeed(isolated(SandboxHostGvisor.make(options))),
    docker: Effect.succeed(isolated(SandboxHostDocker.make({ ...options, image, socket, readOnly: ["/usr", "/etc/alternatives"] }))),
    machines
  }
  return yield* hosts[way]
})

const layer = Layer.unwrap(host).pipe(
  Layer.provideMerge(Layer.merge(Folders.layer, Egress.layer({ allow: new Set() }))),
  Layer.provideMerge(Spawner.layer),
  Layer.provideMerge(Layer.succeed(References.MinimumLogLevel, "Warn"))
)

const freshId = () =>
  SandboxId.make(`c_${Array.from({ length: 12 }, () => ID_ALPHABET[Math.floor(Math.random() * ID_ALPHABET.length)]).join("")}`)

/** A sandbox, of which nothing is left when the scope closes. */
const sandbox = Effect.acquireRelease(Effect.sync(freshId), (sandboxId) =>
  Effect.gen(function*() {
    const host = yield* SandboxHost
    yield* Effect.orDie(host.stop(sandboxId))
    yield* Folders.use((folders) => folders.remove(sandboxId))
  }))

const provision = (sandboxId: SandboxId, fence: number) =>
  SandboxHost.use((host) => {
    const options = { sandboxId, fence, workspace: workspaceOf(sandboxId) }
    return host.provision(options)
  })

/** Starts a program and waits for its first bytes. Of them, and of what comes next, it says how many they are. */
const started = Effect.fnUntraced(function*(box: Box, command: string, ...args: ReadonlyArray<string>) {
  const process = yield* box.spawn({ command, args, env: {} })
  const pull = yield* Stream.toPull(process.stdout)
  const heard = Effect.map(pull, (chunks) => chunks.reduce((sum, { length }) => sum + length, 0))
  return { process, heard, first: yield* heard }
})

/** Says a word, then all that it hears. */
const ECHO = ["sh", "-c", "echo ready; exec cat"] as const

const bootOf = (sandboxId: SandboxId, fence: number) =>
  Effect.gen(function*() {
    const began = performance.now()
    const box = yield* provision(sandboxId, fence)
    const there = performance.now() - began
    yield* started(box, ...ECHO)
    return { provision: there, boot: performance.now() - began, machine } satisfies Boot
  }).pipe(Effect.scoped)

const boots = Effect.gen(function*() {
  const sandboxId = yield* sandbox
  const first = yield* bootOf(sandboxId, 1)
  yield* SandboxHost.use((host) => host.rest(sandboxId))
  return { first, again: yield* bootOf(sandboxId, 2) }
}).pipe(Effect.scoped)

const spawn = (box: Box) =>
  Effect.gen(function*() {
    const began = performance.now()
    yield* started(box, "echo", "ready")
    return performance.now() - began
  }).pipe(Effect.scoped)

const LINE = `${"x".repeat(199)}\n`

const talk = (box: Box, lines: number) =>
  Effect.gen(function*() {
    const { heard, process } = yield* started(box, ...ECHO)
    const there = Effect.gen(function*() {
      const began = performance.now()
      yield* process.write(LINE)
      for (let came = 0; came < LINE.length;) came += yield* heard
      return performance.now() - began
    })
    // First-time work of a process belongs to no side.
    for (let i = 0; i < 100; i++) yield* there
    const times: Array<number> = []
    for (let i = 0; i < lines; i++) times.push(yield* there)
    return times
  }).pipe(Effect.scoped)

/** From the first bytes to the last. */
const flood = (box: Box, bytes: number) =>
  Effect.gen(function*() {
    const { first, heard, process } = yield* started(box, "head", "-c", String(bytes), "/dev/zero")
    const began = performance.now()
    let came = 0
    // It ends as a pull does: by failing.
    yield* Effect.ignore(Effect.forever(Effect.map(heard, (length) => void (came += length))))
    const took = performance.now() - began
    const { code } = yield* process.exited
    if (code !== 0 || came + first !== bytes) throw new Error(`${came + first} of ${bytes} bytes came, and it exited with ${code}`)
    return came / took / 1000
  }).pipe(Effect.scoped)

/** 100 files of 10 KB. */
const FILES = `mkdir "$HOME/files" && for i in $(seq 100); do head -c 10000 /dev/zero > "$HOME/files/$i"; done; echo ready`

const readHome = (sandboxId: SandboxId) =>
  Effect.gen(function*() {
    const host = yield* SandboxHost
    const began = performance.now()
    const bytes = yield* Stream.runFold(
      host.readHome(sandboxId, ["files"], { maximumBytes: 2 ** 24 }),
      () => 0,
      (sum, { length }) => sum + length
    )
    if (bytes < 1_000_000) throw new Error(`the home has ${bytes} bytes`)
    return performance.now() - began
  })

const times = <A, E, R>(count: number, self: Effect.Effect<A, E, R>) => Effect.forEach(Array.from({ length: count }), () => self)

const round = (amounts: Amounts) =>
  Effect.gen(function*() {
    const booted = yield* times(amounts.boots, boots)
    const sandboxId = yield* sandbox
    const box = yield* provision(sandboxId, 1)
    const spawns = yield* times(amounts.spawns, spawn(box))
    const lines = yield* talk(box, amounts.lines)
    const throughput = yield* flood(box, amounts.bytes)
    yield* Effect.scoped(started(box, "sh", "-c", FILES))
    const homes = yield* times(amounts.homes, readHome(sandboxId))
    return {
      first: booted.map(({ first }) => first),
      again: booted.map(({ again }) => again),
      spawns,
      lines,
      throughput,
      homes
    } satisfies Round
  }).pipe(Effect.scoped)

mkdirSync(folder, { recursive: true, mode: 0o711 })
const runtime = ManagedRuntime.make(layer)
await runtime.context()
Protocol.answer(async (ask) => {
  switch (ask._tag) {
    case "Round":
      return await runtime.runPromise(round(ask.amounts))
    case "Leave":
      return await runtime.dispose()
    default:
      throw new Error(`a host cannot ${ask._tag}`)
  }
})
Protocol.ready(null)
