/** Installs agents of this machine, for `slipway agents install`, `slipway setup` and the page of models. */
import * as Install from "@slipway/agents/Install"
import * as Installed from "@slipway/agents/Installed"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { AgentInstaller, type InstallableAgent } from "@slipway/pages/models/AgentInstaller"
import { Cause, Context, Effect, Layer, Semaphore, Stream } from "effect"
import { access, constants, mkdir, rm } from "node:fs/promises"
import path from "node:path"
import { settings as settingsOfIsolation } from "../settings/Isolation.ts"
import type * as Settings from "../settings/Settings.ts"
import * as Isolation from "./machine/Isolation.ts"

/** The agents that have a program to install. */
const programs = Object.entries(profiles).flatMap(([name, profile]) => {
  const { program } = profile
  return program === null ? [] : [{ name, profile, program }]
})
/** Their names. */
export const names = programs.map(({ name }) => name)

/** Only this command knows the box, so no worker has a newer lease of it. */
const NEW = 1

/** Runs the agent once in a box, if this machine has boxes: a downloaded program must not do more than an agent. */
const firstRun = Effect.fnUntraced(function*(settings: Settings.Settings, into: string, progress: (step: string) => Effect.Effect<void>) {
  // Outside the agents' folder: a box hides its workspace and what it makes above it, and the agents must be visible.
  const workspace = yield* Effect.acquireRelease(
    Effect.succeed(path.join(settings.dataDir, "first-run")),
    (workspace) => Effect.promise(() => rm(workspace, { recursive: true, force: true, maxRetries: 3 }))
  )
  const { host, kind, problem } = yield* Isolation.choose({ ...settings, role: "all" }, () => workspace)
  if (kind === "none") {
    const reason = problem ?? `${settingsOfIsolation.isolation.name}=none.`
    yield* progress(`the downloaded program is started once to check it, as this user and without a box: ${reason}`)
    return Install.unboxed(into)
  }
  const boxes = Context.get(yield* Layer.build(host), SandboxHost)
  const inBox: Install.FirstRun = Effect.fnUntraced(
    function*(command, args) {
      const sandboxId = SandboxId.make(`c_${yield* Ids.use((ids) => ids.random(ID_ALPHABET, 12))}`)
      yield* Effect.addFinalizer(() => Effect.ignore(boxes.stop(sandboxId)))
      const box = yield* boxes.provision({ sandboxId, fence: NEW })
      const process = yield* box.spawn({ command, args, env: {} })
      const output = yield* Stream.mkString(Stream.decodeText(process.stdout))
      const { code } = yield* process.exited
      return { code, output: `${output}\n${yield* process.stderrTail}`.split("\n").filter((line) => line !== "") }
    },
    Effect.scoped,
    Effect.provide(IdsNode.layer),
    Effect.mapError(({ message }) => new Install.InstallFailed({ detail: `It could not be tried in a box: ${message}` }))
  )
  return inBox
})

/** Version and notice of an agent that is to be installed; `null`: it is there. */
export const lacking = Effect.fnUntraced(function*(agent: string, dataDir: string) {
  const found = programs.find(({ name }) => name === agent)
  if (found === undefined) return null
  const { name, profile, program } = found
  const { state } = yield* Installed.inspect(name, profile, Installed.folderIn(dataDir))
  return state === "ready" ? null : { version: program.version, notice: program.notice }
})

/** Installs the missing ones of these agents for the service of the settings. */
export const installInto = Effect.fnUntraced(
  function*(settings: Settings.Settings, agents: ReadonlyArray<string>, progress: (step: string) => Effect.Effect<void>) {
    const into = Installed.folderIn(settings.dataDir)
    const wanted = programs.filter(({ name }) => agents.includes(name))
    const missing = yield* Effect.filter(wanted, ({ name }) => Effect.map(lacking(name, settings.dataDir), (found) => found !== null))
    for (const { program } of missing) if (program.notice !== undefined) yield* progress(`${program.package}: ${program.notice}`)
    const run = missing.length === 0 ? Install.unboxed(into) : yield* firstRun(settings, into, progress)
    yield* Install.install({ folder: into, agents: wanted, firstRun: run, progress })
  },
  Effect.scoped
)

/** Why this process cannot install, and the command that can; `null`: it can. */
const problemOf = (folder: string): Effect.Effect<string | null> =>
  Effect.promise(async () => {
    try {
      await mkdir(folder, { recursive: true })
      await access(folder, constants.W_OK)
      return null
    } catch (error) {
      const code = error instanceof Error && "code" in error ? String(error.code) : "an error"
      return `The service cannot write to ${folder} (${code}). As a user who can, run: slipway agents install`
    }
  })

type Run = Pick<InstallableAgent, "state" | "detail">

/**
 * The installer of a process that runs agents on this machine. `install` is the job of `slipway agents install`. Installations run one
 * after the other, in the background, and end with the scope.
 */
export const make = (settings: Settings.Settings, install: typeof installInto = installInto) =>
  Effect.gen(function*() {
    const context = yield* Effect.context<Effect.Services<ReturnType<typeof installInto>>>()
    const scope = yield* Effect.scope
    const one = yield* Semaphore.make(1)
    const runs = new Map<string, Run>()
    const folder = Installed.folderIn(settings.dataDir)
    const described = Effect.fnUntraced(function*({ name, profile, program }: (typeof programs)[number]) {
      const there = yield* Installed.inspect(name, profile, folder)
      const run = runs.get(name)
      const { notice = null, version } = program
      const isReady = there.state === "ready" && run?.state !== "installing"
      const { detail, state }: Run = isReady ? { state: "installed", detail: null } : run ?? { state: "missing", detail: null }
      return { name, version, notice, state, detail }
    })
    const work = (name: string) =>
      install(settings, [name], (detail) => Effect.sync(() => runs.set(name, { state: "installing", detail }))).pipe(
        one.withPermit,
        Effect.provide(context),
        Effect.andThen(Effect.sync(() => runs.delete(name))),
        Effect.catchCause((cause) => {
          const error = Cause.squash(cause)
          const detail = error instanceof Error ? error.message : String(error)
          runs.set(name, { state: "failed", detail })
          return Effect.logWarning(`the agent ${name} could not be installed`, { detail })
        })
      )
    return AgentInstaller.of({
      problem: problemOf(folder),
      agents: Effect.forEach(programs, described),
      install: Effect.fnUntraced(function*(name) {
        if (!names.includes(name)) return false
        if (runs.get(name)?.state === "installing") return true
        runs.set(name, { state: "installing", detail: null })
        yield* Effect.forkIn(work(name), scope)
        return true
      })
    })
  })

/** For the pages of a process whose agents run on this machine. */
export const layer = (settings: Settings.Settings) => settings.role === "all" ? Layer.effect(AgentInstaller, make(settings)) : Layer.empty
