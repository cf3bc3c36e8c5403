/** A `SandboxHost` of boxes: what is the same whatever they are made of. */
import { type Box, type BoxProcess, HostError, SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { SandboxId } from "@slipway/domain/SandboxId"
import { Effect, Exit, Option, Schema, Scope, Semaphore } from "effect"
import { existsSync } from "node:fs"
import { readdir } from "node:fs/promises"
import { dirname, join } from "node:path"
import * as Egress from "../../egress/Egress.ts"
import { deleteTree } from "../../node/DeleteTree.ts"
import { attempt, reason } from "../HostAttempt.ts"
import * as BorrowedObjects from "./BorrowedObjects.ts"
import * as DiskUse from "./DiskUse.ts"
import { defaults, type Limits } from "./Limits.ts"
import type * as Ownership from "./Ownership.ts"
import { EGRESS_SOCKET, etcFiles, SCRATCH, WORKSPACE } from "./Places.ts"
import { inside } from "./Probe.ts"
import * as SandboxFolder from "./SandboxFolder.ts"
import type { ServiceFolder } from "./ServiceFolder.ts"
import type { SizedFolders } from "./SizedFolders.ts"

export interface Options {
  readonly limits?: Partial<Limits>
  /** Absolute paths that every box sees where they are here: programs, never secrets. */
  readonly readOnly?: ReadonlyArray<string>
  /** Who has folders of a size that the kernel keeps. A sandbox whose workspace lies in its own keeps all there that it can write to. */
  readonly folders?: SizedFolders
  /** Pause between looks at how much of the disk a sandbox takes whose folder has no size of its own. */
  readonly diskLookMillis?: number
  /** Between two looks at whether the disk fills up. */
  readonly diskGlanceMillis?: number
}

const DISK_LOOK_MILLIS = 10_000

/** What a process sees and is given. All else is not there. */
export interface Launch {
  readonly sandboxId: SandboxId
  /** Host folders that become the home, the scratch folder and the workspace: all that a box can write to on a disk. */
  readonly folder: SandboxFolder.SandboxFolder
  readonly workspace: string
  /** Whose processes they are on the machine, `null` when they are ours. */
  readonly user: Ownership.User | null
  /** Host paths that appear in the box where they are on the host. Each is there. */
  readonly readOnly: ReadonlyArray<string>
  /** Names of files in the folder's `etc` that become files of `/etc`. */
  readonly etcFiles: ReadonlyArray<string>
  /** Whether the folder's socket is to be the box's way out. */
  readonly hasWayOut: boolean
  readonly limits: Limits
  readonly environment: Readonly<Record<string, string>>
  readonly command: ReadonlyArray<string>
}

/** How boxes of one kind are made and ended. */
export interface Kind {
  readonly isolation: "bubblewrap" | "docker"
  /** Where the programs of boxes are. */
  readonly path: string
  /** Whose processes they are inside. */
  insideUser(user: Ownership.User | null): Ownership.User
  /** Makes what a sandbox needs beside its folder. */
  prepare(sandboxId: SandboxId, folder: SandboxFolder.SandboxFolder, limits: Limits): Effect.Effect<void, HostError>
  /** Starts a process in a box. `end` ends it with all that it started, and may be called twice. */
  start(launch: Launch): Effect.Effect<{ readonly process: BoxProcess; readonly end: Effect.Effect<void> }, HostError>
  /** Ends all that was ever started for the sandbox, by whatever worker of this service. */
  end(operation: HostError["operation"], sandboxId: SandboxId): Effect.Effect<void, HostError>
  /** Gives back what a sandbox without processes holds beside its folder and its user. */
  discard(sandboxId: SandboxId): Effect.Effect<void, HostError>
  /** Names of sandboxes of which more is left than a folder and a user. */
  readonly left: Effect.Effect<ReadonlyArray<string>, HostError>
}

const isSandboxId = Schema.is(SandboxId)

/** One sandbox of this process. */
interface Live {
  readonly box: Box
  readonly scope: Scope.Closeable
  /** Ends each process that runs. */
  readonly running: Set<Effect.Effect<void>>
}

const all = (running: ReadonlySet<Effect.Effect<void>>) =>
  Effect.forEach([...running], (end) => end, { concurrency: "unbounded", discard: true })

export const make = Effect.fnUntraced(function*({ directory, uids }: ServiceFolder, kind: Kind, options: Options) {
  const egress = yield* Egress.Egress
  const limits: Limits = { ...defaults, ...options.limits }
  const lives = new Map<SandboxId, Live>()
  const hostScope = yield* Effect.scope
  const provisioning = Semaphore.makeUnsafe(1)
  const readOnly = [...new Set([process.execPath, Egress.bridge, inside, ...options.readOnly ?? []])]
  // Node's own folder comes last: it is there so that `node` is found, not to hide other tools.
  const path = `${kind.path}:${dirname(process.execPath)}`

  /** The folder that keeps its size by itself, `null` where the sandbox has none. */
  const sizedFolder = Effect.fnUntraced(function*(sandboxId: SandboxId, workspace: string) {
    const { folders } = options
    if (folders === undefined || dirname(workspace) !== join(folders.directory, sandboxId)) return null
    const isSized = yield* Effect.catchDefect(
      folders.open(sandboxId),
      (error) =>
        Effect.fail(
          new HostError({ operation: "provision", detail: `The sandbox's disk cannot be made (${reason(error)}).`, retryable: true })
        )
    )
    return isSized ? dirname(workspace) : null
  })

  const open = Effect.fnUntraced(function*(sandboxId: SandboxId, workspace: string) {
    const sized = yield* sizedFolder(sandboxId, workspace)
    const folder = SandboxFolder.of(directory, sandboxId, sized)
    const { homeInBox: home } = folder
    const user = uids === null ? null : yield* attempt("provision", "No user could be found for the sandbox.", async () => {
      const uid = await uids.claim(sandboxId)
      return { uid, gid: uid }
    })
    const ownEtc = etcFiles({ ...kind.insideUser(user), home })
    yield* attempt(
      "provision",
      `The workspace or ${folder.path} cannot be used.`,
      () => SandboxFolder.prepare(folder, { workspace, user, etcFiles: ownEtc })
    )
    yield* kind.prepare(sandboxId, folder, limits)

    const scope = yield* Scope.fork(hostScope)
    const running = new Set<Effect.Effect<void>>()
    yield* egress.listen({ sandboxId, socket: folder.socket, owner: user }).pipe(
      Scope.provide(scope),
      Effect.mapError(({ detail }) => new HostError({ operation: "provision", detail, retryable: true }))
    )
    if (sized === null) {
      yield* Effect.forkIn(
        DiskUse.guard({
          place: { workspace, folders: [workspace, folder.home, folder.scratch], user },
          limits,
          everyMillis: options.diskLookMillis ?? DISK_LOOK_MILLIS,
          ...(options.diskGlanceMillis === undefined ? {} : { glanceMillis: options.diskGlanceMillis }),
          isIdle: () => running.size === 0,
          exceeded: (excess) =>
            Effect.andThen(
              Effect.logError("ended what a sandbox runs, because of its disk", { sandboxId, excess }),
              Effect.suspend(() => all(running))
            )
        }),
        scope
      )
    }

    const spawn: Box["spawn"] = Effect.fn("Box.spawn")(
      function*({ args, command, env, homeFiles = {}, isOffline = false, readOnly: shown = [] }) {
        yield* SandboxFolder.handOver(folder, { workspace, user, homeFiles })
        const hasWayOut = !isOffline && (yield* egress.isOpen(sandboxId))
        const launch: Launch = {
          sandboxId,
          folder,
          workspace,
          user,
          hasWayOut,
          limits,
          // Agents may be installed at any time.
          readOnly: [...readOnly, ...shown, ...yield* Effect.promise(() => BorrowedObjects.of(workspace))].filter((path) =>
            existsSync(path)
          ),
          etcFiles: Object.keys(ownEtc),
          environment: {
            ...env,
            ...(hasWayOut ? Egress.environment : {}),
            PATH: path,
            HOME: home,
            TMPDIR: SCRATCH,
            LANG: "C.UTF-8",
            TERM: "dumb"
          },
          command: hasWayOut ? Egress.bridged(EGRESS_SOCKET, [command, ...args]) : [command, ...args]
        }
        const started = Effect.tap(kind.start(launch), ({ end }) => Effect.sync(() => running.add(end)))
        const { process } = yield* Effect.acquireRelease(started, ({ end }) => Effect.andThen(end, Effect.sync(() => running.delete(end))))
        return process
      }
    )

    const live: Live = { box: { sandboxId, workspace: WORKSPACE, home, spawn }, scope, running }
    lives.set(sandboxId, live)
    return live.box
  })

  const end = Effect.fnUntraced(function*(operation: HostError["operation"], sandboxId: SandboxId) {
    yield* all(lives.get(sandboxId)?.running ?? new Set())
    yield* kind.end(operation, sandboxId)
  })

  return SandboxHost.of({
    isolation: kind.isolation,
    provision: Effect.fn("SandboxHost.provision")(function*({ sandboxId, workspace }) {
      yield* end("provision", sandboxId)
      return yield* provisioning.withPermits(1)(Effect.suspend(() => {
        const live = lives.get(sandboxId)
        return live === undefined ? open(sandboxId, workspace) : Effect.succeed(live.box)
      }))
    }),
    find: (sandboxId) => Effect.sync(() => Option.map(Option.fromNullishOr(lives.get(sandboxId)), ({ box }) => box)),
    stop: Effect.fn("SandboxHost.stop")(function*(sandboxId) {
      yield* end("stop", sandboxId)
      const live = lives.get(sandboxId)
      lives.delete(sandboxId)
      if (live !== undefined) yield* Scope.close(live.scope, Exit.void)
      yield* kind.discard(sandboxId)
      const { folders } = options
      for (
        const path of [join(directory, sandboxId),
          ...folders === undefined ? [] : [SandboxFolder.writableIn(join(folders.directory, sandboxId))]]
      ) {
        yield* Effect.catchDefect(
          deleteTree(path),
          (error) =>
            Effect.fail(new HostError({ operation: "stop", detail: `${path} cannot be removed (${reason(error)}).`, retryable: true }))
        )
      }
      // Last: nothing of it is left that the next one of this number could find.
      if (uids !== null) yield* attempt("stop", "The sandbox's user cannot be given back.", () => uids.release(sandboxId))
    }),
    list: Effect.gen(function*() {
      const folders = yield* attempt("list", `${directory} cannot be read.`, () => readdir(directory))
      const claims = uids === null ? [] : yield* attempt("list", "The users of sandboxes cannot be read.", () => uids.list())
      return [...new Set([...folders, ...claims.map(({ name }) => name), ...yield* kind.left])].filter(isSandboxId)
    }).pipe(Effect.withSpan("SandboxHost.list"))
  })
})
