/** A `SandboxHost` of boxes: what is the same whatever they are made of. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import {
  type Box,
  type BoxCommand,
  type BoxProcess,
  HostError,
  type LimitsMet,
  type Programs,
  SandboxHost
} from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Exit, Option, Schema, Scope, Stream } from "effect"
import { existsSync } from "node:fs"
import { readdir } from "node:fs/promises"
import { dirname, join, relative } from "node:path"
import * as Egress from "../egress/Egress.ts"
import * as DiskUse from "../files/DiskUse.ts"
import { EGRESS_SOCKET, etcFiles, SCRATCH, WORKSPACE } from "../files/Places.ts"
import * as Repositories from "../files/Repositories.ts"
import * as SandboxFolder from "../files/SandboxFolder.ts"
import type { ServiceFolder } from "../files/ServiceFolder.ts"
import type { SizedFolders } from "../files/SizedFolders.ts"
import * as Toolchains from "../files/Toolchains.ts"
import * as Homes from "../home/Homes.ts"
import { attempt, reason } from "../host/HostAttempt.ts"
import { defaults, type Limits } from "../host/Limits.ts"
import * as Processors from "../kernel/Processors.ts"
import { deleteTree } from "../node/DeleteTree.ts"
import * as KeyedLock from "../node/KeyedLock.ts"
import type * as Ownership from "../users/Ownership.ts"
import { inside } from "./Probe.ts"

export interface Options {
  /** Where the trees of each sandbox are on this machine (`TreesLayout`): what its box shows as its workspace. */
  readonly workspaceOf: (sandboxId: SandboxId) => string
  readonly limits?: Partial<Limits>
  /** Absolute paths that every box sees where they are here: programs, never secrets. */
  readonly readOnly?: ReadonlyArray<string>
  /** Absolute paths of folders as `Toolchains` has them: every box sees them. */
  readonly toolchains?: ReadonlyArray<string>
  /**
   * Who has folders of a size that the kernel keeps. A sandbox whose workspace lies in its own keeps all there that it can write to.
   */
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
  /** Whether the workspace is to be looked at alone. */
  readonly isReading: boolean
  /** Whose processes they are on the machine, `null` when they are ours. */
  readonly user: Ownership.User | null
  /** Host paths that appear in the box where they are on the host. Each is there. */
  readonly readOnly: ReadonlyArray<string>
  /** Names of files in the folder's `etc` that become files of `/etc`. */
  readonly etcFiles: ReadonlyArray<string>
  /** Whether the folder's socket is to be the box's way out. */
  readonly hasWayOut: boolean
  readonly limits: Limits
  /** Those of the machine that it runs on, as `Processors` gives them; `null`: all. */
  readonly processors: string | null
  readonly environment: Readonly<Record<string, string>>
  readonly command: ReadonlyArray<string>
  /** What the box is made of, as chosen; `null`: what it usually is. */
  readonly image: string | null
}

/** How boxes of one kind are made and ended. */
export interface Kind {
  readonly isolation: "bubblewrap" | "docker" | "gvisor"
  /** What boxes are made of where `image` is asked for; `null`: for none. */
  choose(image: string | null): Effect.Effect<Pick<Programs, "id" | "image" | "isRefused">>
  /** Where the programs of boxes are. `image`: as chosen. */
  path(image: string | null): string
  /** Whether a process sees what was mounted in its folders before it started. */
  readonly showsMounts: boolean
  /** Whose processes they are inside. */
  insideUser(user: Ownership.User | null): Ownership.User
  /** Who has files of a sandbox open on the machine. Absent: its own user. */
  readonly holder?: (sandboxId: SandboxId) => Effect.Effect<Ownership.User, HostError>
  /** Makes what a sandbox needs beside its folder. */
  prepare(
    operation: HostError["operation"],
    sandboxId: SandboxId,
    folder: SandboxFolder.SandboxFolder,
    limits: Limits
  ): Effect.Effect<void, HostError>
  /** Starts a process in a box. `end` ends it with all that it started, and may be called twice. */
  start(launch: Launch): Effect.Effect<{ readonly process: BoxProcess; readonly end: Effect.Effect<void> }, HostError>
  /** Ends all that was ever started for the sandbox, by whatever worker of this service. */
  end(operation: HostError["operation"], sandboxId: SandboxId): Effect.Effect<void, HostError>
  /** How often the kernel kept the sandbox's box to its limits, since it was made. Absent: it does not count that. */
  readonly limitsMet?: (sandboxId: SandboxId) => Effect.Effect<LimitsMet>
  /** Gives back what a sandbox without processes holds beside its folder and its user. */
  discard(operation: HostError["operation"], sandboxId: SandboxId): Effect.Effect<void, HostError>
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

/** What a box of a sandbox is made of. */
interface Prepared {
  readonly folder: SandboxFolder.SandboxFolder
  readonly workspace: string
  readonly user: Ownership.User | null
  /** Names of its files in `/etc`. */
  readonly etcFiles: ReadonlyArray<string>
  readonly isSized: boolean
  readonly processors: string | null
}

/** Those who look at a sandbox. */
interface Visits {
  count: number
  /** A box of their own, while they have one. */
  own: { readonly spawn: Box["spawn"]; readonly running: Set<Effect.Effect<void>> } | null
}

const all = (running: ReadonlySet<Effect.Effect<void>>) =>
  Effect.forEach([...running], (end) => end, { concurrency: "unbounded", discard: true })

export const make = Effect.fnUntraced(function*({ directory, uids }: ServiceFolder, kind: Kind, options: Options) {
  const egress = yield* Egress.Egress
  const limits: Limits = { ...defaults, ...options.limits }
  const lives = new Map<SandboxId, Live>()
  const hostScope = yield* Effect.scope
  const visits = new Map<SandboxId, Visits>()
  const locked = yield* KeyedLock.make
  const processors = Processors.make(limits.cpus)
  const toolchains = options.toolchains ?? []
  /** Of which this process ended all that ever ran, and began to start nothing since: there is nothing to look for. */
  const still = new Set<SandboxId>()
  /** How many starts are under way. */
  const starting = new Map<SandboxId, number>()
  const readOnly = [...new Set([process.execPath, Egress.bridge, inside, ...options.readOnly ?? [], ...toolchains])]
  // Node's own folder comes last: it is there so that `node` is found, not to hide other tools.
  const pathOf = (programs: Programs | undefined) =>
    [...programs?.path ?? [], kind.path(programs?.image ?? null), dirname(process.execPath)].join(":")

  const { folders, workspaceOf } = options

  /** The folder that keeps its size by itself, made where it can be; `null` where the sandbox has none. */
  const sizedFolder = Effect.fnUntraced(function*(operation: HostError["operation"], sandboxId: SandboxId) {
    if (folders === undefined || dirname(workspaceOf(sandboxId)) !== join(folders.directory, sandboxId)) return null
    const isSized = yield* Effect.catchDefect(
      folders.open(sandboxId),
      (error) => Effect.fail(new HostError({ operation, detail: `The sandbox's disk cannot be made (${reason(error)}).`, retryable: true }))
    )
    return isSized ? join(folders.directory, sandboxId) : null
  })

  const userOf = Effect.fnUntraced(function*(operation: HostError["operation"], sandboxId: SandboxId) {
    return uids === null ? null : yield* attempt(operation, "No user could be found for the sandbox.", async () => {
      const uid = await uids.claim(sandboxId)
      return { uid, gid: uid }
    })
  })

  const prepare = Effect.fnUntraced(function*(operation: HostError["operation"], sandboxId: SandboxId) {
    const workspace = workspaceOf(sandboxId)
    const sized = yield* sizedFolder(operation, sandboxId)
    const folder = SandboxFolder.of(directory, sandboxId, sized)
    const user = yield* userOf(operation, sandboxId)
    const ownEtc = etcFiles({ ...kind.insideUser(user), home: folder.homeInBox })
    yield* attempt(
      operation,
      `The workspace or ${folder.path} cannot be used.`,
      () => SandboxFolder.prepare(folder, { workspace, user, etcFiles: ownEtc })
    )
    yield* kind.prepare(operation, sandboxId, folder, limits)
    const prepared: Prepared = {
      folder,
      workspace,
      user,
      etcFiles: Object.keys(ownEtc),
      isSized: sized !== null,
      processors: processors.take(sandboxId)
    }
    return prepared
  })

  /** While it is started, whoever looks for what runs may miss it. */
  const noted = (sandboxId: SandboxId) => <A, E>(start: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        still.delete(sandboxId)
        starting.set(sandboxId, (starting.get(sandboxId) ?? 0) + 1)
      }),
      () => start,
      () =>
        Effect.sync(() => {
          const left = (starting.get(sandboxId) ?? 1) - 1
          if (left > 0) starting.set(sandboxId, left)
          else starting.delete(sandboxId)
        })
    )

  const spawnIn = Effect.fnUntraced(function*(
    sandboxId: SandboxId,
    { etcFiles, folder, processors, user, workspace }: Prepared,
    { isReading, running }: { readonly isReading: boolean; readonly running: Set<Effect.Effect<void>> },
    { args, command, env, homeFiles = {}, isOffline = false, programs, seesRepositories }: BoxCommand
  ) {
    yield* SandboxFolder.handOver(folder, { workspace, user, homeFiles })
    const hasWayOut = !isOffline && !isReading && (yield* egress.isOpen(sandboxId))
    const { borrowed, repositories } = yield* attempt("spawn", "The sandbox's repositories cannot be read.", async () => {
      const repositories = await Repositories.of(workspace)
      return { repositories, borrowed: await Repositories.borrowed(repositories) }
    })
    const launch: Launch = {
      sandboxId,
      folder,
      workspace,
      isReading,
      user,
      hasWayOut,
      limits,
      processors,
      // Agents may be installed at any time.
      readOnly: [...readOnly, ...seesRepositories === true ? repositories : [], ...borrowed].filter((path) => existsSync(path)),
      etcFiles,
      image: programs?.image ?? null,
      environment: {
        ...(hasWayOut ? Egress.runtimes : {}),
        ...programs?.env,
        ...env,
        ...(hasWayOut ? Egress.environment : {}),
        PATH: pathOf(programs),
        HOME: folder.homeInBox,
        TMPDIR: SCRATCH,
        LANG: "C.UTF-8",
        TERM: "dumb"
      },
      command: hasWayOut ? Egress.bridged(EGRESS_SOCKET, [command, ...args]) : [command, ...args]
    }
    const started = noted(sandboxId)(Effect.tap(kind.start(launch), ({ end }) => Effect.sync(() => running.add(end))))
    const { process } = yield* Effect.acquireRelease(started, ({ end }) => Effect.andThen(end, Effect.sync(() => running.delete(end))))
    return process
  })

  const open = Effect.fnUntraced(function*(sandboxId: SandboxId) {
    const prepared = yield* prepare("provision", sandboxId)
    const { folder, isSized, user, workspace } = prepared
    const scope = yield* Scope.fork(hostScope)
    const running = new Set<Effect.Effect<void>>()
    yield* egress.listen({ sandboxId, socket: folder.socket, owner: user }).pipe(
      Scope.provide(scope),
      Effect.mapError(({ detail }) => new HostError({ operation: "provision", detail, retryable: true }))
    )
    if (!isSized) {
      const holder = kind.holder === undefined ? user : yield* kind.holder(sandboxId)
      yield* Effect.forkIn(
        DiskUse.guard({
          place: { workspace, folders: [workspace, folder.home, folder.scratch], user: holder },
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

    const spawn: Box["spawn"] = Effect.fn("Box.spawn")(function*(command) {
      const live = lives.get(sandboxId)
      // Nothing would keep a process to its limits.
      if (live === undefined) {
        return yield* new HostError({ operation: "spawn", detail: "The sandbox has no box any more.", retryable: false })
      }
      return yield* spawnIn(sandboxId, prepared, { isReading: false, running: live.running }, command)
    })
    const overlay: NonNullable<Box["overlay"]> = ({ image, paths, tree }) =>
      Effect.suspend(() => {
        if (folders === undefined || !isSized || user === null) return Effect.succeed("the sandbox has no disk and user of its own")
        const within = (path: string) => relative(join(folders.directory, sandboxId), path)
        const wanted = { image, paths, tree: within(join(workspace, relative(WORKSPACE, tree))), home: within(folder.home) }
        return folders.overlay(sandboxId, wanted)
      })
    const box = {
      sandboxId,
      workspace: WORKSPACE,
      home: folder.homeInBox,
      spawn,
      ...kind.showsMounts ? { overlay } : {},
      ...kind.limitsMet === undefined ? {} : { limitsMet: kind.limitsMet(sandboxId) }
    }
    const live: Live = { box, scope, running }
    lives.set(sandboxId, live)
    return live.box
  })

  /** Whoever looks at a sandbox gets the box that is there when it starts something. */
  const lookIn = (sandboxId: SandboxId, these: Visits): Box => {
    const own = locked(sandboxId)(Effect.gen(function*() {
      const live = lives.get(sandboxId)
      if (live !== undefined) return live.box.spawn
      if (these.own !== null) return these.own.spawn
      const prepared = yield* prepare("visit", sandboxId)
      const running = new Set<Effect.Effect<void>>()
      these.own = { spawn: (command) => spawnIn(sandboxId, prepared, { isReading: true, running }, command), running }
      return these.own.spawn
    }))
    return {
      sandboxId,
      workspace: WORKSPACE,
      home: SandboxFolder.of(directory, sandboxId, null).homeInBox,
      spawn: Effect.fn("Box.spawn")(function*(command) {
        return yield* (yield* own)(command)
      })
    }
  }

  const leave = (sandboxId: SandboxId, these: Visits) =>
    locked(sandboxId)(Effect.gen(function*() {
      these.count--
      if (these.count > 0) return
      visits.delete(sandboxId)
      if (these.own === null || lives.has(sandboxId)) return
      yield* all(these.own.running)
      yield* kind.discard("visit", sandboxId)
      processors.release(sandboxId)
    })).pipe(
      // What is left of it the next box takes over.
      Effect.catch((error) => Effect.logWarning("a box of readers is left", { sandboxId, reason: error.detail }))
    )

  const end = Effect.fnUntraced(function*(operation: HostError["operation"], sandboxId: SandboxId) {
    yield* all(lives.get(sandboxId)?.running ?? new Set())
    if (operation === "provision" && still.has(sandboxId)) return
    // Before it is looked: what is started from now on takes it back.
    if (!starting.has(sandboxId)) still.add(sandboxId)
    yield* Effect.onError(kind.end(operation, sandboxId), () => Effect.sync(() => still.delete(sandboxId)))
  })

  /** Ends all that runs, and gives back what nobody needs who does not run. */
  const giveBack = Effect.fnUntraced(function*(operation: HostError["operation"], sandboxId: SandboxId) {
    yield* end(operation, sandboxId)
    const live = lives.get(sandboxId)
    lives.delete(sandboxId)
    const looking = visits.get(sandboxId)
    if (looking !== undefined) looking.own = null
    if (live !== undefined) yield* Scope.close(live.scope, Exit.void)
    yield* kind.discard(operation, sandboxId)
    processors.release(sandboxId)
  })

  return SandboxHost.of({
    isolation: kind.isolation,
    programs: Effect.fn("SandboxHost.programs")(function*(image) {
      const chosen = yield* kind.choose(image)
      const kept = yield* Effect.promise(() => Toolchains.programs(toolchains, WORKSPACE))
      return { ...chosen, ...kept, id: `${chosen.id} ${kept.id}` }
    }),
    provision: Effect.fn("SandboxHost.provision")(function*({ sandboxId }) {
      yield* end("provision", sandboxId)
      const live = lives.get(sandboxId)
      return live === undefined ? yield* open(sandboxId) : live.box
    }, (self, { sandboxId }) => locked(sandboxId)(self)),
    find: (sandboxId) => Effect.sync(() => Option.map(Option.fromNullishOr(lives.get(sandboxId)), ({ box }) => box)),
    visit: Effect.fn("SandboxHost.visit")(function*({ sandboxId }) {
      const these = yield* Effect.acquireRelease(
        Effect.sync(() => {
          const known = visits.get(sandboxId) ?? { count: 0, own: null }
          known.count++
          visits.set(sandboxId, known)
          return known
        }),
        (these) => leave(sandboxId, these)
      )
      return lookIn(sandboxId, these)
    }),
    readHome: (sandboxId, paths, limits) =>
      Stream.unwrap(Effect.gen(function*() {
        const isSized = folders !== undefined && (yield* Effect.catchDefect(
          folders.reopen(sandboxId),
          (error) =>
            Effect.fail(
              new HostError({ operation: "read", detail: `The sandbox's disk is not there (${reason(error)}).`, retryable: true })
            )
        ))
        return Homes.read(SandboxFolder.of(directory, sandboxId, isSized ? join(folders.directory, sandboxId) : null).home, paths, limits)
      })),
    writeHome: Effect.fn("SandboxHost.writeHome")(function*<E>(sandboxId: SandboxId, content: Stream.Stream<Uint8Array, E>) {
      const folder = SandboxFolder.of(directory, sandboxId, yield* sizedFolder("write", sandboxId))
      const owner = yield* userOf("write", sandboxId)
      yield* attempt("write", `${folder.writable} cannot be used.`, () => SandboxFolder.prepareHome(folder, owner))
      yield* Homes.write({ home: folder.home, beside: folder.writable, owner }, content)
    }, (self, sandboxId) => locked(sandboxId)(self)),
    rest: Effect.fn("SandboxHost.rest")(
      (sandboxId) => giveBack("rest", sandboxId),
      (self, sandboxId) => locked(sandboxId)(self)
    ),
    stop: Effect.fn("SandboxHost.stop")(function*(sandboxId) {
      yield* giveBack("stop", sandboxId)
      still.delete(sandboxId)
      if (folders !== undefined) yield* folders.uncover(sandboxId)
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
    }, (self, sandboxId) => locked(sandboxId)(self)),
    list: Effect.gen(function*() {
      const folders = yield* attempt("list", `${directory} cannot be read.`, () => readdir(directory))
      const claims = uids === null ? [] : yield* attempt("list", "The users of sandboxes cannot be read.", () => uids.list())
      return [...new Set([...folders, ...claims.map(({ name }) => name), ...yield* kind.left])].filter(isSandboxId)
    }).pipe(Effect.withSpan("SandboxHost.list"))
  })
})
