/** `slipway agents`: the programs that agents are, which ones are here, and how to get them. */
import { Console, Effect, Schema } from "effect"
import { Argument, Command } from "effect/cli"
import { profiles } from "@slipway/adapters/agents/AgentRuntimeProfiles"
import * as Install from "@slipway/adapters/agents/Install"
import * as Installed from "@slipway/adapters/agents/Installed"
import { json } from "./Administration.ts"
import { columns, print } from "./Output.ts"
import * as Settings from "./Settings.ts"

const folder = Effect.map(Settings.load, ({ dataDir }) => Installed.folderIn(dataDir))

const described = Effect.fnUntraced(function*(folder: string) {
  return yield* Effect.forEach(Object.entries(profiles), ([name, profile]) =>
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
    }))
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

const install = Command.make("install", {
  chosen: Argument.String("name").pipe(
    Argument.withDescription(`Any of ${names.join(", ")}; without a name, all`),
    Argument.withSchema(Schema.Literals(names)),
    Argument.variadic()
  ),
  json
}, ({ chosen, json }) =>
  Effect.gen(function*() {
    const into = yield* folder
    const wanted = programs.filter(({ name }) => chosen.length === 0 || chosen.includes(name))
    const progress = (step: string) => Console.error(`slipway: ${step}`)
    for (const { program } of wanted) {
      if (program.notice !== undefined) yield* progress(`${program.package}: ${program.notice}`)
    }
    yield* Install.install({ folder: into, agents: wanted, progress })
    yield* list(json)
  })).pipe(
    Command.withDescription(
      "Fetch agents from the npm registry into the data folder, in the versions Slipway was tried with.\n\n" +
        "Some 1.3 GB for all of them. What is there already stays; an interrupted install goes on when it is repeated."
    ),
    Command.withShortDescription("Fetch agents from the npm registry"),
    Command.withExamples([{ command: "slipway agents install codex claude", description: "Two of them" }])
  )

export const agents = Command.make("agents", { json }, ({ json }) => list(json)).pipe(
  Command.withDescription("The agents sandboxes can run: which are here, their versions, what they can do, and why one is not usable"),
  Command.withShortDescription("The agents sandboxes can run: list, install"),
  Command.withSubcommands([install])
)
