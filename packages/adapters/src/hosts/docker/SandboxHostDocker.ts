/**
 * `SandboxHost` on Docker, for machines that have a daemon: each process of a sandbox, with all it starts, is a container of
 * its own, under the same rules as a box of bubblewrap. See `SECURITY.md` for what that stops and what not.
 *
 *     <directory>/<sandbox id>/…    see `box/SandboxFolder`
 */
import { spawn as startProcess } from "node:child_process"
import { randomUUID } from "node:crypto"
import { existsSync } from "node:fs"
import { readdir } from "node:fs/promises"
import { dirname } from "node:path"
import type { Duplex } from "node:stream"
import { fileURLToPath } from "node:url"
import { Deferred, Effect, Exit, Schema, Scope, Semaphore } from "effect"
import { type Box, type BoxProcess, HostError, SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { SandboxId } from "@slipway/domain/sandbox/SandboxId"
import * as Egress from "../../egress/Egress.ts"
import { deleteTree } from "../../git/DeleteTree.ts"
import * as BorrowedObjects from "../box/BorrowedObjects.ts"
import * as DiskUse from "../box/DiskUse.ts"
import { defaults, type Limits } from "../box/Limits.ts"
import { EGRESS_SOCKET, etcFiles, SCRATCH, WORKSPACE } from "../box/Places.ts"
import { inside } from "../box/Probe.ts"
import * as SandboxFolder from "../box/SandboxFolder.ts"
import { attempt, reason } from "../HostAttempt.ts"
import * as Attachment from "./Attachment.ts"
import * as Container from "./Container.ts"
import { call, callUnlessGone } from "./Daemon.ts"
import * as Means from "./Means.ts"

export interface Options extends Means.Options {
  readonly limits?: Partial<Limits>
  /** Absolute paths that every box sees where they are here: programs, never secrets. */
  readonly readOnly?: ReadonlyArray<string>
  /** Pause between looks at how much of the disk a sandbox takes. */
  readonly diskLookMillis?: number
}

const DISK_LOOK_MILLIS = 10_000

const watchdog = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "./Watchdog.ts" : "./Watchdog.js", import.meta.url))

const isSandboxId = Schema.is(SandboxId)

/** One sandbox of this process. */
interface Live {
  readonly box: Box
  readonly scope: Scope.Closeable
  /** Ids of containers. */
  readonly running: Set<string>
}

/** The host without its probe, which looks at it. */
export const make = (options: Options) => Effect.flatMap(Means.find(options), (means) => makeWith(means, options))

/** The same with means that were found before. */
export const makeWith = Effect.fnUntraced(function*(means: Means.Means, options: Pick<Options, "limits" | "readOnly" | "diskLookMillis">) {
  const egress = yield* Egress.Egress
  const limits: Limits = { ...defaults, ...options.limits }
  const { directory, docker, image, seccompProfile, service, uids } = means
  const worker = randomUUID()
  const lives = new Map<SandboxId, Live>()
  const hostScope = yield* Effect.scope
  const provisioning = Semaphore.makeUnsafe(1)
  const readOnly = [...new Set([process.execPath, Egress.bridge, inside, ...options.readOnly ?? []])]
  // Node's own folder comes last: it is there so that `node` is found, not to hide the image's tools.
  const path = `${image.path}:${dirname(process.execPath)}`
  const ourselves = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }

  // In a session of its own: what ends this process shall not end it as well.
  yield* Effect.acquireRelease(
    Effect.sync(() =>
      startProcess(process.execPath, ["--max-old-space-size=32", watchdog, means.socket, `${Container.labels.worker}=${worker}`], {
        detached: true, stdio: ["pipe", "ignore", "ignore"], env: {}
      })),
    (dog) =>
      Effect.sync(() => {
        dog.kill("SIGKILL")
      })
  )

  const remove = (operation: HostError["operation"], id: string) =>
    callUnlessGone(operation, () => docker.getContainer(id).remove({ force: true, v: true }))

  const containersOf = (operation: HostError["operation"], ...labels: ReadonlyArray<string>) =>
    call(operation, () => docker.listContainers({ all: true, filters: JSON.stringify({ label: [`${Container.labels.instance}=${service}`, ...labels] }) }))

  const open = Effect.fnUntraced(function*(sandboxId: SandboxId, workspace: string) {
    const folder = SandboxFolder.of(directory, sandboxId)
    const user = uids === null ? null : yield* attempt("provision", "No user could be found for the sandbox.", async () => {
      const uid = await uids.claim(sandboxId)
      return { uid, gid: uid }
    })
    const insideUser = user ?? ourselves
    const ownEtc = etcFiles({ ...insideUser, home: folder.homeInBox })
    yield* attempt("provision", `The workspace or ${folder.path} cannot be used.`, () => SandboxFolder.prepare(folder, { workspace, user, etcFiles: ownEtc }))

    const scope = yield* Scope.fork(hostScope)
    const running = new Set<string>()
    yield* egress.listen({ sandboxId, socket: folder.socket, owner: user }).pipe(
      Scope.provide(scope),
      Effect.mapError(({ detail }) => new HostError({ operation: "provision", detail, retryable: true }))
    )
    yield* Effect.forkIn(
      DiskUse.guard({
        folders: [workspace, folder.home, folder.scratch],
        limits,
        everyMillis: options.diskLookMillis ?? DISK_LOOK_MILLIS,
        isIdle: () => running.size === 0,
        exceeded: (excess) =>
          Effect.andThen(
            Effect.logError("ended what a sandbox runs, because of its disk", { sandboxId, excess }),
            Effect.forEach(running, (id) => Effect.ignoreCause(remove("stop", id)), { discard: true })
          )
      }),
      scope
    )

    /** Attached before it starts, so that nothing it says is lost. */
    const started = Effect.fnUntraced(function*(id: string) {
      const container = docker.getContainer(id)
      const connection: Duplex = yield* call("spawn", async () => {
        const stream = await container.attach({ stream: true, hijack: true, stdin: true, stdout: true, stderr: true })
        return stream as Duplex
      })
      const attached = Attachment.make(connection)
      yield* call("spawn", () => container.start()).pipe(Effect.tapError(() => Effect.sync(() => connection.destroy())))
      const exit = Deferred.makeUnsafe<{ readonly code: number | null; readonly signal: string | null }>()
      const end = (code: number | null) => Deferred.doneUnsafe(exit, Exit.succeed({ code, signal: null }))
      // A daemon that went away takes its containers with it, or removes them when it is back.
      container.wait().then(({ StatusCode }: { readonly StatusCode: number }) => end(StatusCode), () => end(null))
      const { State } = yield* call("spawn", () => container.inspect())
      const boxed: BoxProcess = { ...attached, pid: State.Pid, exited: Deferred.await(exit) }
      return { boxed, connection }
    })

    const spawn: Box["spawn"] = Effect.fn("Box.spawn")(function*({ args, command, env, homeFiles = {} }) {
      yield* SandboxFolder.handOver(folder, { workspace, user, homeFiles })
      const bridged = yield* egress.isOpen(sandboxId)
      const settings = Container.options({
        image: image.name,
        labels: { [Container.labels.instance]: service, [Container.labels.sandbox]: sandboxId, [Container.labels.worker]: worker },
        user: insideUser,
        home: folder.homeInBox,
        homeFolder: folder.home,
        scratchFolder: folder.scratch,
        workspaceFolder: workspace,
        // Agents may be installed at any time.
        readOnly: [...readOnly, ...yield* Effect.promise(() => BorrowedObjects.of(workspace))].filter((path) => existsSync(path)),
        etc: folder.etc,
        etcFiles: Object.keys(ownEtc),
        egressSocket: bridged ? folder.socket : null,
        seccompProfile,
        limits,
        environment: {
          ...env, ...(bridged ? Egress.environment : {}), PATH: path, HOME: folder.homeInBox, TMPDIR: SCRATCH, LANG: "C.UTF-8", TERM: "dumb"
        },
        command: bridged ? Egress.bridged(EGRESS_SOCKET, [command, ...args]) : [command, ...args]
      })
      const { boxed } = yield* Effect.acquireRelease(
        Effect.gen(function*() {
          const { id } = yield* call("spawn", () => docker.createContainer(settings))
          running.add(id)
          const { boxed, connection } = yield* started(id).pipe(Effect.onError(() => Effect.ignoreCause(remove("spawn", id))))
          return { boxed, connection, id }
        }),
        ({ boxed, connection, id }) =>
          remove("stop", id).pipe(
            Effect.andThen(boxed.exited),
            Effect.catch((error) => Effect.logError("a container could not be removed", { sandboxId, container: id, reason: error.message })),
            Effect.ensuring(Effect.sync(() => {
              connection.destroy()
              running.delete(id)
            }))
          )
      )
      return boxed
    })

    const live: Live = { box: { sandboxId, workspace: WORKSPACE, home: folder.homeInBox, spawn }, scope, running }
    lives.set(sandboxId, live)
    return live.box
  })

  /** Ends all that was ever started for the sandbox, by whatever worker of this service. */
  const end = Effect.fnUntraced(function*(operation: HostError["operation"], sandboxId: SandboxId) {
    const found = yield* containersOf(operation, `${Container.labels.sandbox}=${sandboxId}`)
    yield* Effect.forEach(found, ({ Id }) => remove(operation, Id), { concurrency: "unbounded", discard: true })
  })

  const provision = Effect.fn("SandboxHost.provision")(function*({ sandboxId, workspace }: { readonly sandboxId: SandboxId; readonly workspace: string }) {
    yield* end("provision", sandboxId)
    return yield* provisioning.withPermits(1)(Effect.suspend(() => {
      const live = lives.get(sandboxId)
      return live === undefined ? open(sandboxId, workspace) : Effect.succeed(live.box)
    }))
  })

  const stop = Effect.fn("SandboxHost.stop")(function*(sandboxId: SandboxId) {
    yield* end("stop", sandboxId)
    const live = lives.get(sandboxId)
    lives.delete(sandboxId)
    if (live !== undefined) yield* Scope.close(live.scope, Exit.void)
    const { path } = SandboxFolder.of(directory, sandboxId)
    yield* Effect.catchDefect(deleteTree(path), (error) =>
      Effect.fail(new HostError({ operation: "stop", detail: `${path} cannot be removed (${reason(error)}).`, retryable: true })))
    // Last: nothing of it is left that the next one of this number could find.
    if (uids !== null) yield* attempt("stop", "The sandbox's user cannot be given back.", () => uids.release(sandboxId))
  })

  const list = Effect.gen(function*() {
    const folders = yield* attempt("list", `${directory} cannot be read.`, () => readdir(directory))
    const claims = uids === null ? [] : yield* attempt("list", "The users of sandboxes cannot be read.", () => uids.list())
    const labelled = (yield* containersOf("list")).map(({ Labels }) => Labels[Container.labels.sandbox] ?? "")
    return [...new Set([...folders, ...claims.map(({ name }) => name), ...labelled])].filter(isSandboxId)
  }).pipe(Effect.withSpan("SandboxHost.list"))

  return { means, limits, host: SandboxHost.of({ isolation: "docker", provision, stop, list }) }
})
