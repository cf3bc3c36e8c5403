/**
 * Trees in machines that are folders of this one, each with a real runner of its own, which is reached by TLS. Boxes are what the
 * runner starts: nothing keeps anything in, what is tested is git.
 */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type Box, HostError, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Context, Effect, Exit, Layer, RcMap, Scope, Semaphore, Stream } from "effect"
import { mkdir, rm } from "node:fs/promises"
import { join } from "node:path"
import * as RunnerClient from "../src/client/RunnerClient.ts"
import { Runners } from "../src/client/Runners.ts"
import * as WorkingTreesRunner from "../src/trees/WorkingTreesRunner.ts"
import * as Identity from "../src/wire/Identity.ts"
import * as Fixture from "./Fixture.ts"

export interface Options extends Omit<WorkingTreesRunner.Options, "places"> {
  /** Where the machines are. Default: as {@link workspaceIn} has them. */
  readonly machines?: string
}

const machinesIn = (directory: string): string => join(directory, "machines")

/** Where the workspace of each sandbox is, of trees that are known in `directory`. */
export const workspaceIn = (directory: string) => (sandboxId: SandboxId): string => join(machinesIn(directory), sandboxId, "workspace")

/** Those that stand in for machines elsewhere. */
export class Machines extends Context.Service<Machines, {
  /** The folder that stands in for all of the machine's disk. */
  rootOf(sandboxId: SandboxId): string
  workspace(sandboxId: SandboxId): string
  /** Makes it, or starts its runner again on the disk that is there. */
  start(sandboxId: SandboxId): Effect.Effect<void>
  /** Its runner is killed unnoticed; the disk stays. */
  kill(sandboxId: SandboxId): Effect.Effect<void>
  /** It is gone with its disk. */
  remove(sandboxId: SandboxId): Effect.Effect<void>
}>()("@slipway/runner/Machines") {}

/** Operations for the contract suites. */
export const workspace = (sandboxId: SandboxId) => Effect.map(Machines, (machines) => machines.workspace(sandboxId))

const failed = (detail: string, retryable: boolean) => new HostError({ operation: "spawn", detail, retryable })

const machines = (directory: string) =>
  Effect.gen(function*() {
    const running = new Map<
      SandboxId,
      { readonly place: Pick<Fixture.Place, "host" | "port" | "worker">; readonly scope: Scope.Closeable; isAlive: boolean }
    >()
    const rootOf = (sandboxId: SandboxId) => join(directory, sandboxId)
    const { runner: identity, worker } = Identity.mint()
    const connections = yield* RcMap.make({
      lookup: (sandboxId: SandboxId) =>
        Effect.suspend(() => {
          const machine = running.get(sandboxId)
          return machine === undefined
            ? Effect.fail(failed("The sandbox has no machine.", false))
            : RunnerClient.connect({
              address: { host: machine.place.host, port: machine.place.port },
              identity: machine.place.worker,
              fence: 1,
              patience: "3 seconds"
            }).pipe(Effect.mapError(({ message }) => failed(message, true)))
        })
    })
    const crash = Effect.fnUntraced(function*(sandboxId: SandboxId) {
      const machine = running.get(sandboxId)
      if (machine === undefined) return
      running.delete(sandboxId)
      yield* Scope.close(machine.scope, Exit.void)
      yield* RcMap.invalidate(connections, sandboxId)
    })
    const one = yield* Semaphore.make(1)
    const start = Effect.fnUntraced(function*(sandboxId: SandboxId) {
      if (running.get(sandboxId)?.isAlive === true) return
      yield* crash(sandboxId)
      const root = rootOf(sandboxId)
      for (const folder of ["workspace", "repositories", "home", "tmp"]) {
        yield* Effect.promise(() => mkdir(join(root, folder), { recursive: true }))
      }
      const scope = yield* Scope.make()
      const settings = {
        listen: { host: "127.0.0.1", port: 0 },
        tree: join(root, "workspace"),
        state: join(root, "state"),
        identity,
        ways: [],
        silenceMillis: 30_000,
        beatMillis: 1_000
      }
      const { told } = yield* Scope.provide(Fixture.launch({ folder: root, settings }), scope)
      running.set(sandboxId, { place: { ...told, worker }, scope, isAlive: true })
    }, one.withPermits(1))
    yield* Effect.addFinalizer(() => Effect.forEach(Array.from(running.keys()), crash, { discard: true }))
    const service = Machines.of({
      rootOf,
      workspace: (sandboxId) => join(rootOf(sandboxId), "workspace"),
      start,
      kill: Effect.fnUntraced(function*(sandboxId) {
        const machine = running.get(sandboxId)
        if (machine === undefined) return
        machine.isAlive = false
        yield* Scope.close(machine.scope, Exit.void)
        yield* RcMap.invalidate(connections, sandboxId)
      }),
      remove: (sandboxId) => Effect.andThen(crash(sandboxId), Effect.promise(() => rm(rootOf(sandboxId), { recursive: true, force: true })))
    })
    const runners = Runners.of({
      connection: (sandboxId) => RcMap.get(connections, sandboxId),
      making: (sandboxId) => Effect.andThen(running.has(sandboxId) ? Effect.void : start(sandboxId), RcMap.get(connections, sandboxId)),
      has: (sandboxId) => Effect.sync(() => running.has(sandboxId))
    })
    return Context.merge(Context.make(Machines, service), Context.make(Runners, runners))
  })

const host = Effect.gen(function*() {
  const runners = yield* Runners
  const { remove, rootOf, start, workspace } = yield* Machines
  const boxOf = (sandboxId: SandboxId): Box => ({
    sandboxId,
    workspace: workspace(sandboxId),
    home: join(rootOf(sandboxId), "home"),
    spawn: Effect.fnUntraced(function*({ args, command, env }) {
      const { spawn } = yield* runners.connection(sandboxId)
      const process = yield* spawn({
        command,
        args,
        env: { ...env, PATH: "/usr/local/bin:/usr/bin:/bin", HOME: join(rootOf(sandboxId), "home"), TMPDIR: join(rootOf(sandboxId), "tmp") }
      }).pipe(Effect.mapError(({ message }) => failed(message, true)))
      return {
        pid: process.pid,
        write: (bytes) => process.write(Buffer.from(bytes)),
        endInput: process.endInput,
        stdout: Stream.catch(process.stdout, () => Stream.empty),
        stderrTail: process.stderrTail,
        exited: Effect.orElseSucceed(process.exited, () => ({ code: null, signal: "SIGKILL" }))
      }
    })
  })
  const none = Effect.die(new Error("unused"))
  return SandboxHost.of({
    isolation: "none",
    programs: () => none,
    provision: ({ sandboxId }) => Effect.as(start(sandboxId), boxOf(sandboxId)),
    find: (sandboxId) => Effect.succeedSome(boxOf(sandboxId)),
    visit: ({ sandboxId }) => Effect.succeed(boxOf(sandboxId)),
    readHome: () => Stream.die(new Error("unused")),
    readFiles: () => Stream.die(new Error("unused")),
    writeHome: () => none,
    rest: () => Effect.void,
    stop: remove,
    list: Effect.succeed([])
  })
})

/** A sandbox without trees has no machine, as a worker sees to. */
export const layer = (options: Options) => {
  const elsewhere = Layer.effectContext(machines(options.machines ?? machinesIn(options.directory)))
  return Layer.effect(
    WorkingTrees,
    Effect.gen(function*() {
      const trees = yield* WorkingTrees
      const { remove } = yield* Machines
      return WorkingTrees.of({
        ...trees,
        remove: (sandboxId) => Effect.andThen(trees.remove(sandboxId), remove(sandboxId))
      })
    })
  ).pipe(
    Layer.provide(
      Layer.unwrap(Effect.map(Machines, ({ rootOf }) =>
        WorkingTreesRunner.layer({
          ...options,
          places: (sandboxId) => ({
            workspace: join(rootOf(sandboxId), "workspace"),
            repositories: join(rootOf(sandboxId), "repositories")
          })
        })))
    ),
    Layer.provideMerge(Layer.effect(SandboxHost, host)),
    Layer.provideMerge(elsewhere)
  )
}
