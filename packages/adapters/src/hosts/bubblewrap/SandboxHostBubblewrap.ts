/**
 * `SandboxHost` on bubblewrap: each process of a sandbox, with all it starts, lives in namespaces of its own, as a user of
 * the sandbox's own, under a system call filter and the kernel's limits, and sees the system read-only, its working trees,
 * its home and nothing else. See `SECURITY.md` for what that stops and what not.
 *
 *     <directory>/filter.bpf
 *     <directory>/<sandbox id>/…         see `box/SandboxFolder`
 *     <directory>/<sandbox id>/launch    what a starting box is told, removed when it has read it
 */
import { randomUUID } from "node:crypto"
import { existsSync } from "node:fs"
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { Effect, Exit, Layer, Option, Schema, Scope, Semaphore } from "effect"
import { type Box, type BoxProcess, HostError, SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { SandboxId } from "@slipway/domain/sandbox/SandboxId"
import { deleteTree } from "../../git/DeleteTree.ts"
import * as Egress from "../../egress/Egress.ts"
import * as NodeBoxProcess from "../none/NodeBoxProcess.ts"
import * as ProcessTable from "../none/ProcessTable.ts"
import * as Arguments from "./Arguments.ts"
import * as BorrowedObjects from "../box/BorrowedObjects.ts"
import * as DiskUse from "../box/DiskUse.ts"
import * as Launch from "./Launch.ts"
import { defaults, type Limits } from "../box/Limits.ts"
import type { NotIsolated } from "../box/NotIsolated.ts"
import * as Means from "./Means.ts"
import { EGRESS_SOCKET, etcFiles, SCRATCH, WORKSPACE } from "../box/Places.ts"
import { inside, type Property } from "../box/Probe.ts"
import * as SandboxFolder from "../box/SandboxFolder.ts"
import { attempt, reason } from "../HostAttempt.ts"
import * as Probe from "./Probe.ts"
import * as Processes from "./Processes.ts"
import * as Relay from "./Relay.ts"

export interface Options extends Means.Options {
  readonly limits?: Partial<Limits>
  /** Absolute paths that every box sees where they are here: programs, never secrets. */
  readonly readOnly?: ReadonlyArray<string>
  /** Pause between looks at how much of the disk a sandbox takes. */
  readonly diskLookMillis?: number
}

/** `<service>:<sandbox id>:<process>`, in the environment of bubblewrap itself: finds what a killed worker left. */
const MARK = "SLIPWAY_SANDBOX"

/** Of killed processes. A sandbox is to be over two seconds after it was told so. */
const KILL_WITHIN = "2 seconds"

/** How long bubblewrap may take to say that a box is made, on however busy a machine. */
const START_WITHIN_MILLIS = 30_000

const DISK_LOOK_MILLIS = 10_000

const isSandboxId = Schema.is(SandboxId)

/** Kernel limits that pass, in bubblewrap's words. */
const isPassing = (complaint: string) => /temporarily unavailable|Cannot allocate memory|Too many open files|No space left/u.test(complaint)

const Info = Schema.fromJsonString(Schema.Struct({ "child-pid": Schema.Int }))
const decodeInfo = Schema.decodeUnknownOption(Info)

interface Running {
  readonly release: Effect.Effect<void>
}

/** One sandbox of this process. */
interface Live {
  readonly box: Box
  readonly scope: Scope.Closeable
  readonly running: Set<Running>
}

/** The host without its probe: what {@link layer} is made of, and what the probe looks at. */
export const make = (options: Options) => Effect.flatMap(Means.find(options), (means) => makeWith(means, options))

/** The same with means that were found before. */
export const makeWith = Effect.fnUntraced(function*(means: Means.Means, options: Pick<Options, "limits" | "readOnly" | "diskLookMillis">) {
  const egress = yield* Egress.Egress
  const limits: Limits = { ...defaults, ...options.limits }
  const { directory, filterFile, groups, service, tools, uids } = means
  if (!("reason" in groups)) yield* Effect.addFinalizer(() => Effect.promise(groups.close))
  const lives = new Map<SandboxId, Live>()
  const hostScope = yield* Effect.scope
  const provisioning = Semaphore.makeUnsafe(1)
  const strays = Launch.strays()
  const readOnly = [...new Set([process.execPath, Egress.bridge, inside, ...options.readOnly ?? []])]
  // Node's own folder comes last: it is there so that `node` is found, not to hide the machine's tools.
  const path = `/usr/local/bin:/usr/bin:/bin:${dirname(process.execPath)}`

  const open = Effect.fnUntraced(function*(sandboxId: SandboxId, workspace: string) {
    const folder = SandboxFolder.of(directory, sandboxId)
    const { homeInBox: home, socket } = folder
    const launchFolder = join(folder.path, "launch")
    const ownEtc = etcFiles({ uid: Arguments.USER, gid: Arguments.USER, home })
    const user = uids === null ? null : yield* attempt("provision", "No user could be found for the sandbox.", async () => {
      const uid = await uids.claim(sandboxId)
      return { uid, gid: uid }
    })
    yield* attempt("provision", `The workspace or ${folder.path} cannot be used.`, async () => {
      await SandboxFolder.prepare(folder, { workspace, user, etcFiles: ownEtc })
      // What is left there is of a worker that was killed while it started something.
      await rm(launchFolder, { recursive: true, force: true })
      await mkdir(launchFolder, { mode: 0o700 })
    })
    const groupFiles = "reason" in groups ? [] : yield* attempt("provision", "The sandbox's control group cannot be made.", () => groups.create(sandboxId, limits))

    const scope = yield* Scope.fork(hostScope)
    const running = new Set<Running>()
    yield* egress.listen({ sandboxId, socket, owner: user }).pipe(
      Scope.provide(scope),
      Effect.mapError(({ detail }) => new HostError({ operation: "provision", detail, retryable: true }))
    )

    const endAll = Effect.suspend(() => Effect.forEach(running, ({ release }) => release, { concurrency: "unbounded", discard: true }))
    yield* Effect.forkIn(
      DiskUse.guard({
        folders: [workspace, folder.home, folder.scratch],
        limits,
        everyMillis: options.diskLookMillis ?? DISK_LOOK_MILLIS,
        isIdle: () => running.size === 0,
        exceeded: (excess) => Effect.andThen(Effect.logError("ended what a sandbox runs, because of its disk", { sandboxId, excess }), endAll)
      }),
      scope
    )

    /** What bubblewrap says of the box, when it is made. Fails when it ends without. */
    const untilMade = Effect.fnUntraced(function*(boxed: BoxProcess, infoFile: string) {
      // `null`: it has ended already.
      const look = Effect.map(Effect.promise(() => readFile(infoFile, "utf8").catch(() => "")), (text) =>
        Option.map(decodeInfo(text), (info) => Processes.first(info["child-pid"]) ?? null))
      const made = Effect.gen(function*() {
        for (let waited = 0; waited < START_WITHIN_MILLIS; waited += 2) {
          const first = yield* look
          if (first._tag === "Some") return first.value
          yield* Effect.sleep(2)
        }
        return yield* new HostError({ operation: "spawn", detail: "The box was not made in time.", retryable: true })
      })
      const ended = Effect.gen(function*() {
        yield* boxed.exited
        // It may have been quicker than the look.
        const first = yield* look
        if (first._tag === "Some") return first.value
        const complaint = (yield* boxed.stderrTail).trim()
        return yield* new HostError({ operation: "spawn", detail: `The box could not be made: ${complaint.slice(-300) || "bubblewrap says nothing of it"}.`, retryable: isPassing(complaint) })
      })
      return yield* Effect.raceFirst(made, ended)
    })

    const spawn: Box["spawn"] = Effect.fn("Box.spawn")(function*({ args, command, env, homeFiles = {} }) {
      yield* SandboxFolder.handOver(folder, { workspace, user, homeFiles })
      const bridged = yield* egress.isOpen(sandboxId)
      const id = randomUUID()
      const [argumentsFile, infoFile] = [join(launchFolder, `${id}.arguments`), join(launchFolder, `${id}.info`)]
      // Agents may be installed at any time.
      const programs = [...readOnly, ...yield* Effect.promise(() => BorrowedObjects.of(workspace))].filter((path) => existsSync(path))
      const relay = user === null ? Relay.none : yield* Effect.try({
        try: () => Relay.to([folder.path, workspace, ...programs]),
        catch: (error) => new HostError({ operation: "spawn", detail: `The way to the box's folders cannot be made (${reason(error)}).`, retryable: true })
      })
      const sight = Arguments.bubblewrap({
        home,
        homeFolder: folder.home,
        scratchFolder: folder.scratch,
        workspaceFolder: workspace,
        readOnly: programs,
        etc: folder.etc,
        etcFiles: Object.keys(ownEtc),
        egressSocket: bridged ? socket : null,
        through: relay.through,
        memoryFilesBytes: limits.memoryFilesBytes
      }, Launch.descriptors)
      const environment = {
        ...env, ...(bridged ? Egress.environment : {}), PATH: path, HOME: home, TMPDIR: SCRATCH, LANG: "C.UTF-8", TERM: "dumb"
      }
      const settings = ["--clearenv", ...Object.entries(environment).flatMap(([name, value]) => ["--setenv", name, value]), ...sight]
      yield* attempt("spawn", `${launchFolder} cannot be written to.`, () =>
        writeFile(argumentsFile, settings.map((setting) => `${setting}\0`).join(""), { mode: 0o600 }))

      const [program, ...launchArguments] = Launch.commandLine({
        tools, user, limits, groupFiles, relay, strays, filterFile, argumentsFile, infoFile,
        command: bridged ? Egress.bridged(EGRESS_SOCKET, [command, ...args]) : [command, ...args]
      })

      const forget = Effect.promise(() => Promise.all([rm(argumentsFile, { force: true }), rm(infoFile, { force: true })]))
      const started = Effect.gen(function*() {
        const { process: boxed, release } = yield* NodeBoxProcess.start(program, launchArguments, {
          cwd: "/",
          env: { PATH: Launch.PATH, [MARK]: `${service}:${sandboxId}:${id}` }
        })
        const first = yield* untilMade(boxed, infoFile).pipe(Effect.onError(() => release))
        const end = Effect.gen(function*() {
          // The first process takes all others of its namespace with it, and is gone when they are.
          const left = yield* Processes.killAll(() => first !== null && Processes.isRunning(first) ? [first.pid] : [], KILL_WITHIN)
          yield* release
          if (left.length === 0) yield* boxed.exited
          else yield* Effect.logError("processes survive SIGKILL", { sandboxId, pids: left })
        })
        const entry: Running = { release: end }
        running.add(entry)
        return { boxed, entry }
      }).pipe(Effect.ensuring(forget))

      const { boxed } = yield* Effect.acquireRelease(started, ({ entry }) =>
        Effect.andThen(entry.release, Effect.sync(() => running.delete(entry))))
      return boxed
    })

    const live: Live = { box: { sandboxId, workspace: WORKSPACE, home, spawn }, scope, running }
    lives.set(sandboxId, live)
    return live.box
  })

  /** Ends all that was ever started for the sandbox, by whatever worker of this service. */
  const end = Effect.fnUntraced(function*(operation: HostError["operation"], sandboxId: SandboxId) {
    yield* Effect.forEach(lives.get(sandboxId)?.running ?? [], ({ release }) => release, { concurrency: "unbounded", discard: true })
    // Two more ways, neither of which trusts the other: the mark of what a worker started, and the user.
    const marked = yield* ProcessTable.killAll({
      variable: MARK, matches: (mark) => mark.startsWith(`${service}:${sandboxId}:`), within: KILL_WITHIN
    })
    const claims = uids === null ? [] : yield* attempt(operation, "The sandbox's user is not known.", () => uids.list())
    const users = claims.filter(({ name }) => name === sandboxId).map(({ uid }) => uid)
    const left = users.length === 0 ? [] : yield* Processes.killAll(() => users.flatMap(Processes.ofUser), KILL_WITHIN)
    if (marked.length + left.length === 0) return
    return yield* new HostError({ operation, detail: `Processes ${[...marked, ...left].join(", ")} survive SIGKILL.`, retryable: true })
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
    if (!("reason" in groups)) {
      yield* attempt("stop", "The sandbox's control group cannot be removed.", async () => {
        await groups.kill(sandboxId)
        await groups.remove(sandboxId)
      })
    }
    const { path } = SandboxFolder.of(directory, sandboxId)
    yield* Effect.catchDefect(deleteTree(path), (error) =>
      Effect.fail(new HostError({ operation: "stop", detail: `${path} cannot be removed (${reason(error)}).`, retryable: true })))
    // Last: nothing of it is left that the next one of this number could find.
    if (uids !== null) yield* attempt("stop", "The sandbox's user cannot be given back.", () => uids.release(sandboxId))
  })

  const list = Effect.gen(function*() {
    const folders = yield* attempt("list", `${directory} cannot be read.`, () => readdir(directory))
    const claims = uids === null ? [] : yield* attempt("list", "The users of sandboxes cannot be read.", () => uids.list())
    const grouped = "reason" in groups ? [] : yield* attempt("list", "The control groups cannot be read.", groups.list)
    const marked = [...yield* ProcessTable.marks(MARK)].flatMap((mark) => {
      const [ofService, sandboxId = ""] = mark.split(":")
      return ofService === service ? [sandboxId] : []
    })
    return [...new Set([...folders, ...claims.map(({ name }) => name), ...grouped, ...marked])].filter(isSandboxId)
  }).pipe(Effect.withSpan("SandboxHost.list"))

  return { means, limits, host: SandboxHost.of({ isolation: "bubblewrap", provision, stop, list }) }
})

/** Probes first, and fails with what is missing. Says what is in force. */
export const layer = (options: Options): Layer.Layer<SandboxHost, NotIsolated, Egress.Egress> =>
  Layer.effect(
    SandboxHost,
    Effect.gen(function*() {
      const made = yield* make(options)
      const report = yield* Probe.run(made)
      const details = (state: Property["state"]) =>
        Object.fromEntries(report.filter((property) => property.state === state).map(({ detail, name }) => [name, detail]))
      yield* Effect.logInfo("sandboxes are isolated by bubblewrap", details("in force"))
      for (const [name, detail] of Object.entries(details("off"))) yield* Effect.logWarning(`isolation lacks: ${name}`, { detail })
      return made.host
    })
  )
