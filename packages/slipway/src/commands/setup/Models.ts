/** `slipway models`: the models of the service, and what each lacks. */
import { CatalogueFile, defaultFile } from "@slipway/domain/models/schema/ModelCatalogueFile"
import { Console, Effect, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import * as ModelSettings from "../../settings/Models.ts"
import * as Settings from "../../settings/Settings.ts"
import * as Server from "../client/server/Server.ts"
import { columns, json, print } from "../terminal/Output.ts"
import { discover } from "./DiscoverModels.ts"
import * as ModelReport from "./ModelReport.ts"

const jsonSchema = () => {
  const { definitions, schema } = Schema.toJsonSchemaDocument(CatalogueFile, { onExcessProperty: "error" })
  return { $schema: "https://json-schema.org/draft/2020-12/schema", ...schema, $defs: definitions }
}

const example = () => JSON.stringify(Schema.encodeSync(CatalogueFile)(defaultFile), null, 2)

const flag = (name: string, description: string) => Flag.Boolean(name).pipe(Flag.withDescription(description), Flag.withDefault(false))

const shown = ({ id, isDefault, model, problems }: ModelReport.Reported) => ({
  id,
  agentRuntime: model?.agentRuntime ?? null,
  efforts: model?.efforts ?? [],
  approvals: model?.approvals ?? null,
  offline: model?.offline ?? null,
  default: isDefault,
  usable: problems.length === 0,
  problems
})

/** Without the address of a server. */
const here = Effect.map(Effect.flatMap(Settings.load, ModelReport.find), ({ isRunning, models }) => ({
  models,
  source: isRunning ? "As the running service reports." : "No service is running. As one would find them here."
}))

export const models = Command.make("models", {
  json,
  schema: flag("schema", "Print the JSON Schema of the catalogue's file"),
  example: flag("example", "Print the catalogue that holds without a file, to begin yours with"),
  url: Server.asksServer
}, ({ example: wantsExample, json, schema, url }) =>
  Effect.gen(function*() {
    if (schema) return yield* Console.log(JSON.stringify(jsonSchema(), null, 2))
    if (wantsExample) return yield* Console.log(example())
    const { models, source } = yield* Server.askedOf(
      url,
      (url) => Effect.map(ModelReport.ask(url), ({ models, url }) => ({ models, source: `As ${url} reports.` })),
      here
    )
    const rows = models.map(shown)
    const table = () =>
      columns([
        ["MODEL", "RUNTIME", "EFFORTS", "STATE"],
        ...models.map((one) => [one.id, one.model?.agentRuntime ?? "-", one.model?.efforts.join(",") || "-", ModelReport.stateOf(one)])
      ])
    yield* print(json, rows, () => `${source}\n\n${table()}`)
  })).pipe(
    Command.withDescription(
      "The models that sandboxes may use: which of them can be used, and everything that the others lack. " +
        "A running service is asked, with --url over its API, which needs a key with the scope models. " +
        "Otherwise this machine is checked.\n\n" +
        `Set up a model with slipway setup. ${ModelSettings.settings.modelsFile.name} names a file of your own models. ` +
        "Without it, those of --example apply."
    ),
    Command.withExamples([{ command: "slipway models", description: "Also why others cannot be used" }, {
      command: "slipway models --url https://slipway.example",
      description: "The models of that server, as it finds them"
    }, {
      command: "slipway models --example",
      description: "A file to begin with"
    }]),
    Command.withSubcommands([discover])
  )
