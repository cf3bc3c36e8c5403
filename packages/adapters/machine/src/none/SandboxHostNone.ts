/**
 * `SandboxHost` without isolation: processes of the machine, run by our own user. For the offline agent, or where the
 * operator trusts the agent with the machine. What a sandbox started is found again by `SANDBOX_MARK` in its
 * environment (see ProcessTable), also by another worker process after this one was killed.
 */
import { ARTIFACTS_FOLDER } from "@slipway/domain/files/rules/ArtifactsFolder"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { BoxNotRunning, PortClosed } from "@slipway/domain/sandbox/ports/BoxConnection"
import { type Box, type BoxCommand, HostError, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Layer, Option, Schema, type Stream } from "effect"
import { randomUUID } from "node:crypto"
import { mkdir, readdir, realpath, rm } from "node:fs/promises"
import { join } from "node:path"
import * as ProcessEnvironment from "../box/ProcessEnvironment.ts"
import * as Toolchains from "../files/Toolchains.ts"
import * as HomeFiles from "../home/HomeFiles.ts"
import * as Homes from "../home/Homes.ts"
import { attempt, reason } from "../host/HostAttempt.ts"
import * as ImageName from "../host/ImageName.ts"
import * as TrustedAuthorities from "../network/TrustedAuthorities.ts"
import * as KeyedLock from "../node/KeyedLock.ts"
import * as NodeBoxProcess from "../node/NodeBoxProcess.ts"
import * as ProcessTable from "../node/ProcessTable.ts"
import * as ListeningSockets from "../ports/ListeningSockets.ts"
import * as LoopbackConnection from "../ports/LoopbackConnection.ts"

/** `<directory>/<sandbox id>:<process>`: whose process it is, for every worker that uses this directory. */
const MARK = "SANDBOX_MARK"

/** The timeout for a killed process, and for a folder that its last processes still write to. */
const KILL_WITHIN = "5 seconds"

const isSandboxId = Schema.is(SandboxId)

const kill = (matches: (mark: string) => boolean) => ProcessTable.killAll({ variable: MARK, matches, within: KILL_WITHIN })

export interface Options {
  /** Holds the homes and temporary folders. Workers that share it see each other's leftovers. */
  readonly directory: string
  /** Where the trees of each sandbox are on this machine (`box/TreesLayout`). */
  readonly workspaceOf: (sandboxId: SandboxId) => string
  /** Absolute paths of folders as `Toolchains` has them. */
  readonly toolchains?: ReadonlyArray<string>
}

const PATH = "/usr/local/bin:/usr/bin:/bin"

interface Host {
  /** Resolved. */
  readonly directory: string
  readonly workspaceOf: Options["workspaceOf"]
  /** Provisioned, and not at rest. */
  readonly boxes: Map<SandboxId, Box>
  readonly counted: ReturnType<typeof LoopbackConnection.counter>
  locked(sandboxId: SandboxId): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** The folders of one box. */
interface Folders {
  readonly sandboxId: SandboxId
  readonly folder: string
  readonly home: string
  readonly tmp: string
  readonly workspace: string
}

/** Ends every process that was ever started for the sandbox of this folder. */
const end = Effect.fnUntraced(function*(operation: HostError["operation"], folder: string) {
  const left = yield* kill((mark) => mark.startsWith(`${folder}:`))
  if (left.length === 0) return
  return yield* new HostError({ operation, detail: `processes ${left.join(", ")} survive SIGKILL`, retryable: true })
})

const homeOf = ({ directory }: Host, sandboxId: SandboxId): string => join(directory, sandboxId, "home")

const spawn = Effect.fn("Box.spawn")(function*(
  { folder, home, sandboxId, tmp, workspace }: Folders,
  { args, command, env, homeFiles = {}, programs }: BoxCommand
) {
  yield* Effect.tryPromise({
    try: () => HomeFiles.write(home, null, homeFiles),
    catch: (error) =>
      error instanceof HomeFiles.RefusedPath
        ? new HostError({ operation: "spawn", detail: error.message, retryable: false, ofSandbox: true })
        : new HostError({
          operation: "spawn",
          detail: `The home cannot be written to (${reason(error)}).`,
          retryable: true
        })
  })
  const box = { path: PATH, home, scratch: tmp, hasWayOut: false, authorities: TrustedAuthorities.bundle() }
  const mark = `${folder}:${randomUUID()}`
  const { process } = yield* Effect.acquireRelease(
    NodeBoxProcess.start(command, args, {
      cwd: workspace,
      env: { ...ProcessEnvironment.of({ env, programs }, box), [MARK]: mark }
    }),
    ({ process, release }) =>
      Effect.gen(function*() {
        const left = yield* kill((other) => other === mark)
        yield* release
        if (left.length === 0) return yield* process.exited
        yield* Effect.logError("processes survive SIGKILL", { sandboxId, pids: left })
      })
  )
  return process
})

/** The folders that a process needs. */
const prepared = Effect.fnUntraced(function*(host: Host, operation: HostError["operation"], sandboxId: SandboxId) {
  const workspace = host.workspaceOf(sandboxId)
  const folder = join(host.directory, sandboxId)
  const home = homeOf(host, sandboxId)
  const tmp = join(folder, "tmp")
  yield* attempt(operation, `The workspace or ${folder} cannot be used.`, async () => {
    // The trees may still be on their way.
    await mkdir(workspace, { recursive: true, mode: 0o700 })
    for (const path of [folder, home, tmp]) await mkdir(path, { recursive: true, mode: 0o700 })
    await HomeFiles.makeFolder(home, ARTIFACTS_FOLDER, null)
  })

  const box: Box = { sandboxId, workspace, home, spawn: (command) => spawn({ folder, home, sandboxId, tmp, workspace }, command) }
  return box
})

/**
 * The loopback interface is the machine's, with the service, its database and other sandboxes on it. So only a socket of the sandbox's own
 * processes is reached.
 */
const connect = Effect.fn("Box.connect")(function*({ boxes, counted, directory }: Host, sandboxId: SandboxId, port: number) {
  if (!boxes.has(sandboxId)) return yield* new BoxNotRunning()
  yield* counted(sandboxId)
  const sockets = ListeningSockets.at(port)
  const own = sockets.length === 0 ? [] : yield* ProcessTable.pidsOf(MARK, (mark) => mark.startsWith(`${join(directory, sandboxId)}:`))
  const socket = sockets.find((one) => own.some((pid) => ListeningSockets.isOf(pid, one)))
  return socket === undefined ? yield* new PortClosed({ port }) : yield* LoopbackConnection.open(socket.host, port)
})

const provision = Effect.fn("SandboxHost.provision")(function*(host: Host, { sandboxId }: { readonly sandboxId: SandboxId }) {
  const { boxes, directory } = host
  yield* end("provision", join(directory, sandboxId))
  const { spawn, ...prepare } = yield* prepared(host, "provision", sandboxId)
  const box: Box = {
    ...prepare,
    spawn: (command) =>
      Effect.suspend(() =>
        boxes.has(sandboxId)
          ? spawn(command)
          : new HostError({ operation: "spawn", detail: "The sandbox has no box any more.", retryable: false })
      ),
    connect: (port) => connect(host, sandboxId, port)
  }
  boxes.set(sandboxId, box)
  return box
}, (self, { locked }, { sandboxId }) => locked(sandboxId)(self))

/** Without a provisioned box a new one will do: it holds nothing while nothing runs in it. */
const visit = Effect.fn("SandboxHost.visit")(function*(host: Host, { sandboxId }: { readonly sandboxId: SandboxId }) {
  return host.boxes.get(sandboxId) ?? (yield* prepared(host, "visit", sandboxId))
}, (self, { locked }, { sandboxId }) => locked(sandboxId)(self))

const writeHome = Effect.fn("SandboxHost.writeHome")(function*<E>(
  host: Host,
  sandboxId: SandboxId,
  content: Stream.Stream<Uint8Array, E>
) {
  const folder = join(host.directory, sandboxId)
  const home = homeOf(host, sandboxId)
  yield* attempt("write", `${folder} cannot be used.`, () => mkdir(home, { recursive: true, mode: 0o700 }))
  yield* Homes.write({ home, beside: folder, owner: null }, content)
}, (self, { locked }, sandboxId) => locked(sandboxId)(self))

const rest = Effect.fn("SandboxHost.rest")(function*({ boxes, directory }: Host, sandboxId: SandboxId) {
  yield* end("rest", join(directory, sandboxId))
  boxes.delete(sandboxId)
}, (self, { locked }, sandboxId) => locked(sandboxId)(self))

const stop = Effect.fn("SandboxHost.stop")(function*({ boxes, directory }: Host, sandboxId: SandboxId) {
  const folder = join(directory, sandboxId)
  yield* end("stop", folder)
  boxes.delete(sandboxId)
  yield* attempt("stop", `${folder} cannot be removed.`, () => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
}, (self, { locked }, sandboxId) => locked(sandboxId)(self))

const list = ({ directory }: Host) =>
  Effect.gen(function*() {
    const names = yield* attempt("list", `${directory} cannot be read.`, () => readdir(directory))
    const marked = [...(yield* ProcessTable.marks(MARK))].flatMap((mark) =>
      mark.startsWith(`${directory}/`)
        ? mark
          .slice(directory.length + 1)
          .split(":")
          .slice(0, 1)
        : []
    )
    return [...new Set([...names, ...marked])].filter(isSandboxId)
  }).pipe(Effect.withSpan("SandboxHost.list"))

const make = Effect.fnUntraced(function*(options: Options) {
  const directory = yield* attempt("provision", `${options.directory} cannot be used.`, async () => {
    await mkdir(options.directory, { recursive: true, mode: 0o700 })
    return realpath(options.directory)
  })
  const host: Host = {
    directory,
    workspaceOf: options.workspaceOf,
    boxes: new Map(),
    counted: LoopbackConnection.counter(),
    locked: yield* KeyedLock.make
  }
  return SandboxHost.of({
    isolation: "none",
    programs: (image) =>
      Effect.gen(function*() {
        const kept = yield* Effect.promise(() => Toolchains.programs(options.toolchains ?? [], null))
        return { ...kept, id: `${yield* ImageName.ofMachine("none")} ${kept.id}`, image: null, isRefused: image !== null }
      }),
    provision: (asked) => provision(host, asked),
    find: (sandboxId) => Effect.sync(() => Option.fromNullishOr(host.boxes.get(sandboxId))),
    visit: (asked) => visit(host, asked),
    readHome: (sandboxId, paths, limits) => Homes.read(homeOf(host, sandboxId), paths, limits),
    readFiles: (sandboxId, path, limits) => Homes.filesIn(Homes.read(homeOf(host, sandboxId), [path], limits)),
    writeHome: (sandboxId, content) => writeHome(host, sandboxId, content),
    rest: (sandboxId) => rest(host, sandboxId),
    stop: (sandboxId) => stop(host, sandboxId),
    list: list(host)
  })
})

export const layer = (options: Options): Layer.Layer<SandboxHost, HostError> => Layer.effect(SandboxHost, make(options))
