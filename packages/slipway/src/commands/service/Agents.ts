/** `slipway agents`: the programs of agents, the installed ones, and their installation. */
import * as Installed from "@slipway/agents/Installed"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { Console, Effect, Schema } from "effect"
import { Argument, Command } from "effect/cli"
import { installInto, names } from "../../service/InstallAgents.ts"
import * as RunningServices from "../../service/RunningServices.ts"
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
          images: capabilities.images,
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
