/** `slipway agents`: the programs of agents, the installed ones, and their installation. */
import * as Install from "@slipway/agents/Install"
import * as Installed from "@slipway/agents/Installed"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { Console, Context, Effect, Layer, Schema, Stream } from "effect"
import { Argument, Command } from "effect/cli"
import { rm } from "node:fs/promises"
import path from "node:path"
import * as Isolation from "../../service/machine/Isolation.ts"
import * as RunningServices from "../../service/RunningServices.ts"
import { settings as settingsOfIsolation } from "../../settings/Isolation.ts"
import * as Settings from "../../settings/Settings.ts"
import { columns, json, print } from "../terminal/Output.ts"

const folder = Effect.map(Effect.flatMap(Settings.load, RunningServices.findFolder), ({ dataDir }) => Installed.folderIn(dataDir))

const described = Effect.fnUntraced(function*(folder: string) {
  return yield* Effect.forEach(
    Object.entries(profiles),
    ([name, profile]) =>
      Effect.map(Installed.inspect(name, profile, folder), (installed) => {
        const { capabilities, program } = profile
        return {
          name,
          usable: installed.state === "ready",
          version: installed.version,
          reason: installed.state === "ready" ? null : installed.reason,
          wanted: program?.version ?? null,
          package: program?.package ?? null,
          license: program?.license ?? null,
          notice: program?.notice ?? null,
          toolApprovals: capabilities.toolApprovals,
          reasoningEfforts: capabilities.reasoningEfforts,
          afterDenial: capabilities.afterDenial,
          modelProtocol: capabilities.modelProtocol
        }
      })
  )
})

type Described = Effect.Success<ReturnType<typeof described>>[number]

const row = ({ license, modelProtocol, name, reason, reasoningEfforts, usable, version }: Described) => [
  name,
  version ?? (usable ? "built in" : "-"),
  modelProtocol ?? "none",
  reasoningEfforts.join(","),
  license ?? "-",
  usable ? "ready" : reason ?? ""
]

const list = Effect.fnUntraced(function*(json: boolean) {
  const agents = yield* Effect.flatMap(folder, described)
  yield* print(json, agents, () => columns([["NAME", "VERSION", "MODEL API", "EFFORTS", "LICENSE", "STATE"], ...agents.map(row)]))
})

const programs = Object.entries(profiles).flatMap(([name, profile]) => {
  const { program } = profile
  return program === null ? [] : [{ name, profile, program }]
})
const names = programs.map(({ name }) => name)

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
    yield* progress(
      `the download is started once as this user, without a box: ${problem ?? `${settingsOfIsolation.isolation.name}=none.`}`
    )
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
    for (const { name, program } of wanted) {
      const missing = program.notice === undefined ? null : yield* lacking(name, settings.dataDir)
      if (missing !== null) yield* progress(`${program.package}: ${program.notice}`)
    }
    yield* Install.install({ folder: into, agents: wanted, firstRun: yield* firstRun(settings, into, progress), progress })
  },
  Effect.scoped
)

const install = Command.make("install", {
  chosen: Argument.String("name").pipe(
    Argument.withDescription(`Any of ${names.join(", ")}; without a name, all`),
    Argument.withSchema(Schema.Literals(names)),
    Argument.variadic()
  ),
  json
}, ({ chosen, json }) =>
  Effect.gen(function*() {
    const settings = yield* Effect.flatMap(Settings.load, RunningServices.findFolder)
    yield* installInto(settings, chosen.length === 0 ? names : chosen, (step) => Console.error(`slipway: ${step}`))
    yield* list(json)
  })).pipe(
    Command.withDescription(
      "Fetch agents from the npm registry into the data folder, in tested versions, checked by their digests.\n\n" +
        "All of them take 1.3 GB. Installed agents stay; repeat an interrupted install to continue it."
    ),
    Command.withShortDescription("Fetch agents from the npm registry"),
    Command.withExamples([{ command: "slipway agents install codex claude", description: "Two of them" }])
  )

export const agents = Command.make("agents", { json }, ({ json }) => list(json)).pipe(
  Command.withDescription("Agents of this machine: versions, abilities, and why one is unusable"),
  Command.withExamples([{ command: "slipway agents", description: "The installed agents, and why others are missing" }]),
  Command.withSubcommands([install])
)
