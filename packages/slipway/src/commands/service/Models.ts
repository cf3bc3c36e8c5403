/** `slipway models`: the model catalogue of this process. */
import { CatalogueFile, type Checked, defaultFile } from "@slipway/domain/models/schema/ModelCatalogueFile"
import { Console, Effect, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import * as Isolation from "../../service/machine/Isolation.ts"
import * as Models from "../../service/Models.ts"
import * as RunningServices from "../../service/RunningServices.ts"
import * as ModelSettings from "../../settings/Models.ts"
import * as Settings from "../../settings/Settings.ts"
import { columns, json, print } from "../terminal/Output.ts"

/** The models as the service would find them here. */
const loadHere = Effect.gen(function*() {
  const { settings, tried } = yield* RunningServices.findToTry(yield* Settings.load)
  const { problem } = yield* Isolation.choose(tried)
  return yield* Models.load(settings, problem)
}).pipe(Effect.scoped)

const jsonSchema = () => {
  const { definitions, schema } = Schema.toJsonSchemaDocument(CatalogueFile, { onExcessProperty: "error" })
  return { $schema: "https://json-schema.org/draft/2020-12/schema", ...schema, $defs: definitions }
}

const example = () => JSON.stringify(Schema.encodeSync(CatalogueFile)(defaultFile), null, 2)

const flag = (name: string, description: string) => Flag.Boolean(name).pipe(Flag.withDescription(description), Flag.withDefault(false))

const shown = ({ model, problem }: Checked, isDefault: boolean) => ({
  id: model.id,
  agentRuntime: model.agentRuntime,
  efforts: model.efforts,
  approvals: model.approvals,
  offline: model.offline,
  default: isDefault,
  usable: problem === null,
  problem
})

export const models = Command.make("models", {
  json,
  schema: flag("schema", "Print the JSON Schema of the catalogue's file"),
  example: flag("example", "Print the catalogue that holds without a file, to begin yours with")
}, ({ example: wantsExample, json, schema }) =>
  Effect.gen(function*() {
    if (schema) return yield* Console.log(JSON.stringify(jsonSchema(), null, 2))
    if (wantsExample) return yield* Console.log(example())
    const { checked, default: fallback } = yield* loadHere
    const rows = checked.map((one) => shown(one, one.model.id === fallback))
    yield* print(json, rows, () =>
      columns([
        ["MODEL", "RUNTIME", "EFFORTS", "STATE"],
        ...rows.map(({ agentRuntime, default: isDefault, efforts, id, problem }) => [
          id,
          agentRuntime,
          efforts.length === 0 ? "-" : efforts.join(","),
          problem ?? (isDefault ? "usable, the default" : "usable")
        ])
      ]))
  })).pipe(
    Command.withDescription(
      "The models that sandboxes may use: which of them can be used here, and what the others lack.\n\n" +
        `${ModelSettings.settings.modelsFile.name} names the file. Without a file, the models of --example apply.`
    ),
    Command.withShortDescription("List the models that sandboxes may use"),
    Command.withExamples([{ command: "slipway models", description: "Also why others cannot be used" }, {
      command: "slipway models --example",
      description: "A file to begin with"
    }])
  )
