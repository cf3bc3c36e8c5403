/**
 * `SandboxHost` whose boxes are machines elsewhere, each with a runner in it: processes start and end there, homes and trees lie there.
 * What a runner says is the sandbox's word. See `docs/runner.md`.
 *
 *     <directory>/<sandbox id>.json     see `KnownMachines`
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import {
  type Box,
  type BoxCommand,
  type BoxProcess,
  HomeDamaged,
  HomeTooLarge,
  HostError,
  SandboxHost
} from "@slipway/domain/sandbox/ports/SandboxHost"
import * as Egress from "@slipway/machine/egress/Egress"
import { attempt } from "@slipway/machine/host/HostAttempt"
import * as KeyedLock from "@slipway/machine/node/KeyedLock"
import { Context, Effect, Exit, Layer, Option, Scope, Stream } from "effect"
import { dirname } from "node:path"
import { isDeepStrictEqual } from "node:util"
import type * as RemoteProcess from "../client/RemoteProcess.ts"
import { HomeRefused } from "../client/RunnerErrors.ts"
import { Runners } from "../client/Runners.ts"
import { homeOf, Machines, PLACES } from "../machines/Machines.ts"
import * as Connections from "./Connections.ts"
import * as HomeFilesArchive from "./HomeFilesArchive.ts"
import * as KnownMachines from "./KnownMachines.ts"
import { isRunnerError, ofHome, ofProcess, type Operation } from "./RunnerTrouble.ts"
import * as WayOutDuplex from "./WayOutDuplex.ts"

export interface Options extends Pick<Connections.Options, "timing"> {
  /** Holds the keys of machines. Made when missing. */
  readonly directory: string
}

/** One sandbox of this process that was provisioned and is not at rest. */
interface Live {
  readonly box: Box
  /** Its proxy's. */
  readonly scope: Scope.Closeable
  readonly serve: Egress.Serve
}

/** The way out of every machine. */
const EGRESS = { name: "egress", port: Egress.PORT }

/** Node's own folder comes last: it is there so that `node` is found where the worker has it, not to hide other tools. */
const PATH = `/usr/local/bin:/usr/bin:/bin:${dirname(process.execPath)}`

const TEMPORARY = "/tmp"

/** How long a process and what it started are waited for. A machine that is gone says nothing for longer, and has ended them. */
const END_WITHIN = "10 seconds"

const READ_WITHIN = "1 minute"

const ENDED = { code: null, signal: "SIGKILL" }

/** A `BoxProcess` is never a failure: with the connection it has ended. */
const describe = ({ endInput, exited, pid, stderrTail, stdout, write }: RemoteProcess.RemoteProcess): BoxProcess => ({
  pid,
  write: (bytes) => write(Buffer.from(bytes)),
  endInput,
  stdout: Stream.catch(stdout, () => Stream.empty),
  stderrTail,
  exited: Effect.orElseSucceed(exited, () => ENDED)
})

export const make = Effect.fnUntraced(function*({ directory, timing }: Options) {
  const egress = yield* Egress.Egress
  const machines = yield* Machines
  const hostScope = yield* Effect.scope
  const locked = yield* KeyedLock.make
  const lives = new Map<SandboxId, Live>()
  const known = yield* attempt("provision", `${directory} cannot be used.`, async () => KnownMachines.make(directory))
  const connections = yield* Connections.make({
    known,
    ...timing === undefined ? {} : { timing },
    // One that was provisioned, and is neither at rest nor to end: nobody has to wait for the next lease.
    startAgain: (operation, sandboxId, fence) =>
      lives.has(sandboxId) ? Effect.as(ensure(operation, sandboxId, fence), true) : Effect.succeed(false),
    dial: (sandboxId) => (way, out) => {
      const live = lives.get(sandboxId)
      return live === undefined || way !== EGRESS.name ? Effect.fail("there is no way") : WayOutDuplex.carry(live.serve, out)
    }
  })

  const read = (operation: Operation, sandboxId: SandboxId) =>
    attempt(operation, "What is known of the sandbox's machine cannot be read.", async () => known.get(sandboxId))

  /** Has the machine made, or found, as the one that was dialled under this fence and no newer one. */
  const ensure = Effect.fnUntraced(function*(operation: Operation, sandboxId: SandboxId, fence: number) {
    const before = (yield* read(operation, sandboxId)) ?? KnownMachines.fresh(fence)
    if (fence < before.fence) {
      return yield* new HostError({
        operation,
        detail: `The sandbox's machine has seen a newer lease (${before.fence}).`,
        retryable: false
      })
    }
    const save = (machine: KnownMachines.Machine) =>
      attempt(operation, `${directory} cannot be written to.`, async () => known.set(sandboxId, machine))
    // On the disk before it is asked for: a machine is no other worker's, and none is made that nobody can dial.
    const machine = { ...before, fence }
    yield* save(machine)
    const address = yield* machines.ensure({ sandboxId, fence, identity: machine.runner, ways: [EGRESS] })
    // A write takes as long as the disk, twice: of a machine that is where it was there is nothing to write.
    if (!isDeepStrictEqual(address, machine.address)) yield* save({ ...machine, address })
  })

  /** Has a machine made for what comes before the first lease is known here; not beside others who have one made. */
  const ensureAny = Effect.fnUntraced(function*(operation: Operation, sandboxId: SandboxId) {
    const machine = yield* read(operation, sandboxId)
    if (machine === undefined || machine.address === null) yield* ensure(operation, sandboxId, machine?.fence ?? 0)
  })

  /** The same, beside others: it waits for nobody where there is one. */
  const ensureSome = Effect.fnUntraced(function*(operation: Operation, sandboxId: SandboxId) {
    const machine = yield* read(operation, sandboxId)
    if (machine === undefined || machine.address === null) yield* locked(sandboxId)(ensureAny(operation, sandboxId))
  })

  const spawnIn = Effect.fnUntraced(function*(
    sandboxId: SandboxId,
    hasWayOut: boolean,
    { args, command, env, homeFiles = {}, programs }: BoxCommand
  ) {
    const files = yield* HomeFilesArchive.of(homeFiles)
    const connection = yield* connections.borrow("spawn", sandboxId)
    if (Object.keys(homeFiles).length > 0) {
      yield* Effect.mapError(connection.writeHome(Stream.fromIterable(files)), ofHome("spawn"))
    }
    const remote = yield* Effect.mapError(
      connection.spawn({
        command,
        args,
        cwd: PLACES.workspace,
        env: {
          ...hasWayOut ? Egress.runtimes : {},
          ...programs?.env,
          ...env,
          ...hasWayOut ? Egress.environment : {},
          PATH: [...programs?.path ?? [], PATH].join(":"),
          HOME: homeOf(sandboxId),
          TMPDIR: TEMPORARY,
          LANG: "C.UTF-8",
          TERM: "dumb"
        }
      }),
      ofProcess(command)
    )
    yield* Effect.addFinalizer(() => Effect.timeoutOption(remote.end, END_WITHIN))
    return describe(remote)
  })

  const boxOf = (sandboxId: SandboxId, spawn: Box["spawn"]): Box => ({
    sandboxId,
    workspace: PLACES.workspace,
    home: homeOf(sandboxId),
    spawn: Effect.fn("Box.spawn")(spawn)
  })

  const open = Effect.fnUntraced(function*(sandboxId: SandboxId) {
    const scope = yield* Scope.fork(hostScope)
    const serve = yield* Scope.provide(egress.serve(sandboxId), scope)
    const box = boxOf(sandboxId, (command) =>
      Effect.gen(function*() {
        if (!lives.has(sandboxId)) {
          return yield* new HostError({ operation: "spawn", detail: "The sandbox has no box any more.", retryable: false })
        }
        const hasWayOut = command.isOffline !== true && (yield* egress.isOpen(sandboxId))
        return yield* spawnIn(sandboxId, hasWayOut, command)
      }))
    const live: Live = { box, scope, serve }
    lives.set(sandboxId, live)
    return live
  })

  const close = Effect.fnUntraced(function*(sandboxId: SandboxId) {
    const live = lives.get(sandboxId)
    lives.delete(sandboxId)
    if (live !== undefined) yield* Scope.close(live.scope, Exit.void)
  })

  yield* machines.losses.pipe(
    Stream.runForEach(({ detail, ofSandbox, sandboxId }) =>
      Effect.logWarning("a sandbox's machine was lost", { detail, ofSandbox }).pipe(
        Effect.annotateLogs({ sandboxId }),
        Effect.andThen(connections.lose(sandboxId)),
        // One that is just dialled is waited for, the other losses are not.
        Effect.forkIn(hostScope)
      )
    ),
    Effect.forkIn(hostScope)
  )

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
    provision: Effect.fn("SandboxHost.provision")(function*({ fence, sandboxId }) {
      yield* ensure("provision", sandboxId, fence)
      yield* Effect.onError(connections.renew("provision", sandboxId), () => close(sandboxId))
      return (lives.get(sandboxId) ?? (yield* open(sandboxId))).box
    }, (self, { sandboxId }) => locked(sandboxId)(self)),
    find: (sandboxId) => Effect.sync(() => Option.map(Option.fromNullishOr(lives.get(sandboxId)), ({ box }) => box)),
    visit: Effect.fn("SandboxHost.visit")(function*({ sandboxId }) {
      const live = lives.get(sandboxId)
      const box = boxOf(sandboxId, (command) =>
        Effect.suspend(() => {
          const live = lives.get(sandboxId)
          return live === undefined ? spawnIn(sandboxId, false, command) : live.box.spawn(command)
        }))
      if (live === undefined) yield* connections.borrow("visit", sandboxId)
      return box
    }),
    readHome: (sandboxId, paths, limits) =>
      Stream.unwrap(Effect.gen(function*() {
        if ((yield* read("read", sandboxId)) === undefined) return Stream.fromIterable(HomeFilesArchive.nothing(paths))
        const connection = yield* connections.borrow("read", sandboxId)
        return Stream.mapError(connection.readHome(paths, limits), (error) =>
          error instanceof HomeRefused && error.reason === "too_large" ? new HomeTooLarge(limits) : ofHome("read")(error))
      })).pipe(
        Stream.interruptWhen(
          Effect.andThen(
            Effect.sleep(READ_WITHIN),
            Effect.fail(new HostError({ operation: "read", detail: "Reading the home took too long.", retryable: true }))
          )
        )
      ),
    writeHome: Effect.fn("SandboxHost.writeHome")(function*<E>(sandboxId: SandboxId, content: Stream.Stream<Uint8Array, E>) {
      yield* ensureAny("write", sandboxId)
      const connection = yield* connections.borrow("write", sandboxId)
      yield* Effect.mapError(connection.writeHome(content), (error) => {
        if (error instanceof HomeRefused && error.reason === "damaged") return new HomeDamaged({ detail: error.detail })
        return error instanceof HomeRefused || isRunnerError(error) ? ofHome("write")(error) : error
      })
    }, (self, sandboxId) => locked(sandboxId)(Effect.scoped(self))),
    rest: Effect.fn("SandboxHost.rest")(function*(sandboxId) {
      yield* close(sandboxId)
      yield* connections.end(sandboxId)
      const machine = yield* read("rest", sandboxId)
      if (machine === undefined || machine.address === null) return
      yield* Effect.catch(connections.endAll("rest", sandboxId), (error) =>
        Effect.flatMap(
          Effect.orElseSucceed(machines.list, () => [sandboxId]),
          // A machine that is gone runs nothing.
          (left) => left.includes(sandboxId) ? Effect.fail(error) : Effect.void
        ))
    }, (self, sandboxId) => locked(sandboxId)(self)),
    stop: Effect.fn("SandboxHost.stop")(function*(sandboxId) {
      yield* close(sandboxId)
      yield* machines.remove(sandboxId)
      yield* connections.end(sandboxId)
      // Last: as long as it is there, so may be the machine.
      yield* attempt("stop", `${directory} cannot be written to.`, async () => known.forget(sandboxId))
    }, (self, sandboxId) => locked(sandboxId)(self)),
    list: Effect.gen(function*() {
      const files = yield* attempt("list", `${directory} cannot be read.`, async () => known.list())
      return [...new Set([...files, ...yield* machines.list])]
    }).pipe(Effect.withSpan("SandboxHost.list"))
  })
  const runners = Runners.of({
    connection: (sandboxId) => connections.borrow("visit", sandboxId),
    making: Effect.fn("Runners.making")(function*(sandboxId) {
      yield* ensureSome("provision", sandboxId)
      return yield* connections.borrow("provision", sandboxId, { isMaking: true })
    }),
    has: (sandboxId) =>
      Effect.map(Effect.result(read("visit", sandboxId)), (found) => found._tag === "Success" && found.success !== undefined)
  })
  return { host, runners }
})

/** Both of one worker. */
export const layer = (options: Options): Layer.Layer<SandboxHost | Runners, HostError, Egress.Egress | Machines> =>
  Layer.effectContext(Effect.map(make(options), ({ host, runners }) => Context.make(SandboxHost, host).pipe(Context.add(Runners, runners))))
