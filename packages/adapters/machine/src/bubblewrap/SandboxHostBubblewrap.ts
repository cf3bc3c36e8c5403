/**
 * `SandboxHost` on bubblewrap: each process of a sandbox, with all it starts, lives in namespaces of its own, as a user of
 * the sandbox's own, under a system call filter and the kernel's limits, and sees the system read-only, its working trees,
 * its home and nothing else. See `SECURITY.md` for what that stops and what not.
 *
 *     <directory>/filter.bpf
 *     <directory>/<sandbox id>/…         see `box/SandboxFolder`
 *     <directory>/<sandbox id>/launch    what a starting box is told, removed when it has read it
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Layer, Option, Schema } from "effect"
import { randomUUID } from "node:crypto"
import { mkdir, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import * as IsolatedHost from "../box/IsolatedHost.ts"
import * as Launcher from "../box/Launcher.ts"
import type { Property } from "../box/Probe.ts"
import { untilMade } from "../box/UntilMade.ts"
import type * as Egress from "../egress/Egress.ts"
import * as Relay from "../files/Relay.ts"
import type { SandboxFolder } from "../files/SandboxFolder.ts"
import { attempt, reason } from "../host/HostAttempt.ts"
import * as ImageName from "../host/ImageName.ts"
import { defaults } from "../host/Limits.ts"
import type { NotIsolated } from "../host/NotIsolated.ts"
import * as Processes from "../kernel/Processes.ts"
import { ofUser } from "../kernel/ProcessesOfUser.ts"
import { textIn } from "../node/IsThere.ts"
import * as NodeBoxProcess from "../node/NodeBoxProcess.ts"
import * as ProcessTable from "../node/ProcessTable.ts"
import * as Arguments from "./Arguments.ts"
import * as Launch from "./Launch.ts"
import * as Means from "./Means.ts"
import * as Probe from "./Probe.ts"

export interface Options extends Means.Options, IsolatedHost.Options {}

/** `<service>:<sandbox id>:<process>`, in the environment of bubblewrap itself: finds what a killed worker left. */
const MARK = "SANDBOX_MARK"

/** Of killed processes. A sandbox is to be over two seconds after it was told so. */
const KILL_WITHIN = "2 seconds"

/** Kernel limits that pass, in bubblewrap's words. */
const isPassing = (complaint: string) => /temporarily unavailable|Cannot allocate memory|Too many open files|No space left/u.test(complaint)

const Info = Schema.fromJsonString(Schema.Struct({ "child-pid": Schema.Int }))
const decodeInfo = Schema.decodeUnknownOption(Info)

/** What bubblewrap says of the box, when it is made: its first process, `null` when that has ended already. */
const saidIn = (infoFile: string) =>
  Effect.map(
    Effect.promise(() => textIn(infoFile, "")),
    (text) => {
      const info = decodeInfo(text)
      return Option.isNone(info) ? undefined : Processes.first(info.value["child-pid"]) ?? null
    }
  )

const launchFolderOf = (folder: SandboxFolder): string => join(folder.path, "launch")

/** The host without its probe: what {@link layer} is made of, and what the probe looks at. */
export const make = (options: Options) => Effect.flatMap(Means.find(options), (means) => makeWith(means, options))

/** The same with means that were found before. */
export const makeWith = Effect.fnUntraced(function*(means: Means.Means, options: IsolatedHost.Options) {
  const { filterFile, groups, service, tools, uids } = means
  if (!("reason" in groups)) yield* Effect.addFinalizer(() => Effect.promise(groups.close))
  const strays = Launcher.strays()
  /** What a process writes its id into, by sandbox. */
  const entrances = new Map<SandboxId, ReadonlyArray<string>>()

  const start: IsolatedHost.Kind["start"] = Effect.fnUntraced(
    function*({ command, environment, folder, limits, processors, sandboxId, user, workspace, ...launch }) {
      const id = randomUUID()
      const [argumentsFile, infoFile] = [join(launchFolderOf(folder), `${id}.arguments`), join(launchFolderOf(folder), `${id}.info`)]
      const relay = user === null ? Relay.none : yield* Effect.try({
        try: () => Relay.to([folder.path, folder.writable, workspace, ...launch.readOnly]),
        catch: (error) =>
          new HostError({ operation: "spawn", detail: `The way to the box's folders cannot be made (${reason(error)}).`, retryable: true })
      })
      const sight = Arguments.bubblewrap({ ...launch, folder, limits, workspace, through: relay.through }, Launch.descriptors)
      const settings = ["--clearenv", ...Object.entries(environment).flatMap(([name, value]) => ["--setenv", name, value]), ...sight]
      yield* attempt("spawn", `${launchFolderOf(folder)} cannot be written to.`, () =>
        writeFile(
          argumentsFile,
          settings.map((setting) => `${setting}\0`).join(""),
          { mode: 0o600 }
        ))

      const [program = "", ...launchArguments] = Launch.commandLine({
        tools,
        user,
        limits,
        processors,
        relay,
        groupFiles: entrances.get(sandboxId) ?? [],
        isGrouped: entrances.has(sandboxId) && !("reason" in groups) && groups.limits.has("processes"),
        strays,
        filterFile,
        argumentsFile,
        infoFile,
        command
      })
      const forget = Effect.promise(() => Promise.all([rm(argumentsFile, { force: true }), rm(infoFile, { force: true })]))
      return yield* Effect.gen(function*() {
        const { process, release } = yield* NodeBoxProcess.start(program, launchArguments, {
          cwd: "/",
          env: { PATH: Launcher.PATH, [MARK]: `${service}:${sandboxId}:${id}` }
        })
        const first = yield* untilMade(process, { look: saidIn(infoFile), program: "bubblewrap", isPassing }).pipe(
          Effect.onError(() => release)
        )
        const end = Effect.gen(function*() {
          // The first process takes all others of its namespace with it, and is gone when they are.
          const left = yield* Processes.killAll(() => first !== null && Processes.isRunning(first) ? [first.pid] : [], KILL_WITHIN)
          yield* release
          if (left.length === 0) yield* process.exited
          else yield* Effect.logError("processes survive SIGKILL", { sandboxId, pids: left })
        })
        return { process, end }
      }).pipe(Effect.ensuring(forget))
    }
  )

  const kind: IsolatedHost.Kind = {
    isolation: "bubblewrap",
    // Of the machine alone.
    choose: (image) => Effect.map(ImageName.ofMachine("bubblewrap"), (id) => ({ id, image: null, isRefused: image !== null })),
    path: () => "/usr/local/bin:/usr/bin:/bin",
    showsMounts: true,
    insideUser: () => ({ uid: Arguments.USER, gid: Arguments.USER }),
    prepare: Effect.fnUntraced(function*(operation, sandboxId, folder, limits) {
      yield* attempt(operation, `${launchFolderOf(folder)} cannot be made.`, async () => {
        // What is left there is of a worker that was killed while it started something.
        await rm(launchFolderOf(folder), { recursive: true, force: true })
        await mkdir(launchFolderOf(folder), { mode: 0o700 })
      })
      if ("reason" in groups) return
      entrances.set(
        sandboxId,
        yield* attempt(operation, "The sandbox's control group cannot be made.", () => groups.create(sandboxId, limits))
      )
    }),
    start,
    ..."reason" in groups ? {} : { limitsMet: (sandboxId) => Effect.promise(() => groups.met(sandboxId)) },
    end: Effect.fnUntraced(function*(operation, sandboxId) {
      // Two ways, neither of which trusts the other: the mark of what a worker started, and the user.
      const marked = yield* ProcessTable.killAll({
        variable: MARK,
        matches: (mark) => mark.startsWith(`${service}:${sandboxId}:`),
        within: KILL_WITHIN
      })
      const claims = uids === null ? [] : yield* attempt(operation, "The sandbox's user is not known.", () => uids.list())
      const users = claims.filter(({ name }) => name === sandboxId).map(({ uid }) => uid)
      const left = users.length === 0 ? [] : yield* Processes.killAll(() => users.flatMap(ofUser), KILL_WITHIN)
      if (marked.length + left.length === 0) return
      return yield* new HostError({ operation, detail: `Processes ${[...marked, ...left].join(", ")} survive SIGKILL.`, retryable: true })
    }),
    discard: (operation, sandboxId) =>
      "reason" in groups ? Effect.void : attempt(operation, "The sandbox's control group cannot be removed.", async () => {
        await groups.kill(sandboxId)
        await groups.remove(sandboxId)
        entrances.delete(sandboxId)
      }),
    left: Effect.gen(function*() {
      const grouped = "reason" in groups ? [] : yield* attempt("list", "The control groups cannot be read.", groups.list)
      const marked = [...yield* ProcessTable.marks(MARK)].flatMap((mark) => {
        const [ofService, sandboxId = ""] = mark.split(":")
        return ofService === service ? [sandboxId] : []
      })
      return [...grouped, ...marked]
    })
  }
  return {
    means,
    limits: { ...defaults, ...options.limits },
    folders: options.folders,
    workspaceOf: options.workspaceOf,
    host: yield* IsolatedHost.make(means, kind, options)
  }
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
