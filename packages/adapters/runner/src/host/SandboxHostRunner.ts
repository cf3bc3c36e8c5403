/**
 * `SandboxHost` whose boxes are machines elsewhere, each with a runner: processes, homes and trees are there. A runner's messages are as
 * trustworthy as its sandbox. See `docs/runner.md`.
 *
 *     <directory>/<sandbox id>.json     see `MachineRegistry`
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HomeDamaged, HomeTooLarge, HostError, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as Egress from "@slipway/machine/egress/Egress"
import * as Homes from "@slipway/machine/home/Homes"
import { attempt } from "@slipway/machine/host/HostAttempt"
import * as KeyedLock from "@slipway/machine/node/KeyedLock"
import { Context, Effect, Layer, Option, Stream } from "effect"
import { HomeRefused } from "../client/RunnerErrors.ts"
import { Runners } from "../client/Runners.ts"
import { Machines } from "../machines/Machines.ts"
import * as EgressDuplex from "./EgressDuplex.ts"
import { ensure, ensureAny, ensureSome, read } from "./EnsureMachine.ts"
import * as HomeFilesArchive from "./HomeFilesArchive.ts"
import { boxOf, close, open, spawnIn } from "./MachineBox.ts"
import * as MachineRegistry from "./MachineRegistry.ts"
import * as RunnerConnections from "./RunnerConnections.ts"
import { isRunnerError, ofHome } from "./RunnerErrorMapping.ts"
import { EGRESS, type RunnerHost } from "./RunnerHost.ts"

type Host = SandboxHost["Service"]

export interface Options extends Pick<RunnerConnections.Options, "timing"> {
  /** Holds the keys of machines. Made when missing. */
  readonly directory: string
}

const READ_WITHIN = "1 minute"

const provision = Effect.fn("SandboxHost.provision")(function*(
  host: RunnerHost,
  { fence, sandboxId }: Parameters<Host["provision"]>[0]
) {
  yield* ensure(host, "provision", sandboxId, fence)
  yield* Effect.onError(host.connections.renew("provision", sandboxId), () => close(host, sandboxId))
  return (host.lives.get(sandboxId) ?? (yield* open(host, sandboxId))).box
}, (self, { locked }, { sandboxId }) => locked(sandboxId)(self))

const visit = Effect.fn("SandboxHost.visit")(function*(host: RunnerHost, { sandboxId }: Parameters<Host["visit"]>[0]) {
  const live = host.lives.get(sandboxId)
  const box = boxOf(sandboxId, (command) =>
    Effect.suspend(() => {
      const live = host.lives.get(sandboxId)
      return live === undefined ? spawnIn(host, sandboxId, false, command) : live.box.spawn(command)
    }))
  if (live === undefined) yield* host.connections.borrow("visit", sandboxId)
  return box
})

const readHome = (host: RunnerHost, ...[sandboxId, paths, limits]: Parameters<Host["readHome"]>) =>
  Stream.unwrap(Effect.gen(function*() {
    if ((yield* read(host, "read", sandboxId)) === undefined) return Stream.fromIterable(HomeFilesArchive.nothing(paths))
    const connection = yield* host.connections.borrow("read", sandboxId)
    return Stream.mapError(connection.readHome(paths, limits), (error) =>
      error instanceof HomeRefused && error.reason === "too_large" ? new HomeTooLarge(limits) : ofHome("read")(error))
  })).pipe(
    Stream.interruptWhen(
      Effect.andThen(
        Effect.sleep(READ_WITHIN),
        Effect.fail(new HostError({ operation: "read", detail: "Reading the home took too long.", retryable: true }))
      )
    )
  )

const writeHome = Effect.fn("SandboxHost.writeHome")(function*<E>(
  host: RunnerHost,
  sandboxId: SandboxId,
  content: Stream.Stream<Uint8Array, E>
) {
  yield* ensureAny(host, "write", sandboxId)
  const connection = yield* host.connections.borrow("write", sandboxId)
  yield* Effect.mapError(connection.writeHome(content), (error) => {
    if (error instanceof HomeRefused && error.reason === "damaged") return new HomeDamaged({ detail: error.detail })
    return error instanceof HomeRefused || isRunnerError(error) ? ofHome("write")(error) : error
  })
}, (self, { locked }, sandboxId) => locked(sandboxId)(Effect.scoped(self)))

const rest = Effect.fn("SandboxHost.rest")(function*(host: RunnerHost, sandboxId: SandboxId) {
  const { connections, machines } = host
  yield* close(host, sandboxId)
  yield* connections.end(sandboxId)
  const machine = yield* read(host, "rest", sandboxId)
  if (machine === undefined || machine.address === null) return
  yield* Effect.catch(connections.endAll("rest", sandboxId), (error) =>
    Effect.flatMap(
      Effect.orElseSucceed(machines.list, () => [sandboxId]),
      // No process runs in a machine that is gone.
      (left) => left.includes(sandboxId) ? Effect.fail(error) : Effect.void
    ))
}, (self, { locked }, sandboxId) => locked(sandboxId)(self))

const stop = Effect.fn("SandboxHost.stop")(function*(host: RunnerHost, sandboxId: SandboxId) {
  const { connections, directory, known, machines } = host
  yield* close(host, sandboxId)
  yield* machines.remove(sandboxId)
  yield* connections.end(sandboxId)
  // Last, because the machine may exist as long as its entry.
  yield* attempt("stop", `${directory} cannot be written to.`, async () => known.forget(sandboxId))
}, (self, { locked }, sandboxId) => locked(sandboxId)(self))

const list = ({ directory, known, machines }: RunnerHost) =>
  Effect.gen(function*() {
    const files = yield* attempt("list", `${directory} cannot be read.`, async () => known.list())
    return [...new Set([...files, ...yield* machines.list])]
  }).pipe(Effect.withSpan("SandboxHost.list"))

const followLosses = ({ connections, machines, scope }: RunnerHost) =>
  machines.losses.pipe(
    Stream.runForEach(({ detail, ofSandbox, sandboxId }) =>
      Effect.logWarning("a sandbox's machine was lost", { detail, ofSandbox }).pipe(
        Effect.annotateLogs({ sandboxId }),
        Effect.andThen(connections.lose(sandboxId)),
        // It may wait for a connection that is being made; the next losses do not wait for it.
        Effect.forkIn(scope)
      )
    ),
    Effect.forkIn(scope)
  )

const runnersOf = (host: RunnerHost): Runners["Service"] =>
  Runners.of({
    connection: (sandboxId) => host.connections.borrow("visit", sandboxId),
    making: Effect.fn("Runners.making")(function*(sandboxId) {
      yield* ensureSome(host, "provision", sandboxId)
      return yield* host.connections.borrow("provision", sandboxId, { isMaking: true })
    }),
    has: (sandboxId) =>
      Effect.map(Effect.result(read(host, "visit", sandboxId)), (found) => found._tag === "Success" && found.success !== undefined)
  })

const makeHost = Effect.fnUntraced(function*({ directory, timing }: Options) {
  const lives: RunnerHost["lives"] = new Map()
  const known = yield* attempt("provision", `${directory} cannot be used.`, async () => MachineRegistry.make(directory))
  const shared = {
    directory,
    known,
    machines: yield* Machines,
    egress: yield* Egress.Egress,
    scope: yield* Effect.scope,
    lives,
    locked: yield* KeyedLock.make
  }
  const connections = yield* RunnerConnections.make({
    known,
    ...timing === undefined ? {} : { timing },
    // Only a sandbox that was provisioned, and is neither at rest nor ending: it need not wait for the next lease.
    startAgain: (operation, sandboxId, fence) =>
      lives.has(sandboxId)
        ? Effect.as(ensure(shared, operation, sandboxId, fence), true)
        : Effect.succeed(false),
    dial: (sandboxId) => (way, out) => {
      const live = lives.get(sandboxId)
      return live === undefined || way !== EGRESS.name ? Effect.fail("there is no way") : EgressDuplex.carry(live.serve, out)
    }
  })
  const host: RunnerHost = { ...shared, connections }
  return host
})

export const make = Effect.fnUntraced(function*(options: Options) {
  const state = yield* makeHost(options)
  const { lives, machines } = state
  yield* followLosses(state)
  const host = SandboxHost.of({
    isolation: machines.isolation,
    programs: Effect.fn("SandboxHost.programs")(function*(image) {
      return {
        id: `${machines.isolation} ${yield* machines.programs}`,
        image: null,
        isRefused: image !== null,
        path: [],
        env: {}
      }
    }),
    provision: (asked) => provision(state, asked),
    find: (sandboxId) => Effect.sync(() => Option.map(Option.fromNullishOr(lives.get(sandboxId)), ({ box }) => box)),
    visit: (asked) => visit(state, asked),
    readHome: (sandboxId, paths, limits) => readHome(state, sandboxId, paths, limits),
    readFiles: (sandboxId, path, limits) => Homes.filesIn(readHome(state, sandboxId, [path], limits)),
    writeHome: (sandboxId, content) => writeHome(state, sandboxId, content),
    rest: (sandboxId) => rest(state, sandboxId),
    stop: (sandboxId) => stop(state, sandboxId),
    list: list(state)
  })
  return { host, runners: runnersOf(state) }
})

/** Both of one worker. */
export const layer = (options: Options): Layer.Layer<SandboxHost | Runners, HostError, Egress.Egress | Machines> =>
  Layer.effectContext(Effect.map(make(options), ({ host, runners }) => Context.make(SandboxHost, host).pipe(Context.add(Runners, runners))))
