/** `slipway models discover`: the models of a server with OpenAI's API, and the settings to use them. */
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import { compatibleEntry } from "@slipway/domain/models/rules/ModelProviders"
import { CatalogueFile } from "@slipway/domain/models/schema/ModelCatalogueFile"
import { ProviderAddress } from "@slipway/domain/models/schema/ModelProvider"
import * as ServedModels from "@slipway/gateway/discovery/ServedModels"
import * as DurableFile from "@slipway/machine/node/DurableFile"
import { isThere } from "@slipway/machine/node/IsThere"
import { Config, Effect, Option, Redacted, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import path from "node:path"
import * as Models from "../../service/Models.ts"
import * as ModelSettings from "../../settings/Models.ts"
import { columns, json, print, shellWord } from "../terminal/Output.ts"

const FILE = ModelSettings.settings.modelsFile.name

/** No settings were made. */
class NothingDiscovered extends Schema.TaggedError<NothingDiscovered>()("NothingDiscovered", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

const stop = (detail: string) => new NothingDiscovered({ detail })

/** The value of the variable, which the child processes of this command do not inherit. */
const keyOf = Effect.fnUntraced(function*(variable: string) {
  const found = yield* Effect.orDie(Config.option(Config.Redacted(variable)))
  yield* Effect.sync(() => delete process.env[variable])
  const key = Option.getOrElse(found, () => Redacted.make(""))
  if (Redacted.value(key) === "") return yield* stop(`${variable} is not set: set it to the server's key.`)
  yield* Redaction.useSync((redaction) => redaction.learn(Redacted.value(key)))
  return key
})

type Entries = CatalogueFile["models"]

/** The file of models with these in addition. A model that is there stays as it is. */
const writeTo = Effect.fnUntraced(function*(file: string, entries: Entries) {
  const isMade = yield* Effect.tryPromise({ try: () => isThere(file), catch: () => stop(`${file} cannot be read.`) })
  const before = yield* Models.read(isMade ? file : null)
  const added = entries.filter(({ id }) => !before.models.some((model) => model.id === id))
  const content = Schema.encodeSync(CatalogueFile)({ ...before, models: [...before.models, ...added] })
  yield* Effect.try({
    try: () => DurableFile.replace(path.resolve(file), `${JSON.stringify(content, null, 2)}\n`),
    catch: (error) => stop(`${file} cannot be written (${error instanceof Error && "code" in error ? String(error.code) : "unknown"}).`)
  })
  return added.map(({ id }) => id)
})

const tokens = (count: number | null): string => count === null ? "-" : count.toLocaleString("en-US")

/** Remarks for people who are about to use the entries. */
const remarks = (models: ReadonlyArray<ServedModels.Served["models"][number]>): ReadonlyArray<string> => [
  ...(models.some(({ prices }) => prices === null)
    ? ["Models without prices cost nothing here: set prices in the file if the server costs money, or budgets do not count them."]
    : []),
  ...(models.some(({ contextTokens }) => contextTokens === null)
    ? ["A context that the server does not say is taken for 128,000 tokens: correct contextTokens if it is smaller."]
    : [])
]

const url = Argument.String("url").pipe(
  Argument.withDescription("Address of the server's API, such as http://localhost:11434/v1"),
  Argument.withSchema(ProviderAddress)
)

export const discover = Command.make("discover", {
  url,
  keyVariable: Flag.String("key-variable").pipe(
    Flag.withDescription("Environment variable with the server's key. The settings name it. Without it, the server needs no key"),
    Flag.withSchema(Schema.String.check(Schema.isPattern(/^[A-Za-z_]\w{0,99}$/u))),
    Flag.optional
  ),
  model: Flag.String("model").pipe(Flag.withDescription("Only the model of this name; repeatable"), Flag.atLeast(0)),
  write: Flag.Path("write").pipe(
    Flag.withDescription("Add the settings to this file of models, which is made if it is not there"),
    Flag.optional
  ),
  json
}, ({ json, keyVariable, model: wanted, url, write }) =>
  Effect.gen(function*() {
    const variable = Option.getOrNull(keyVariable)
    const key = variable === null ? null : yield* keyOf(variable)
    const served = yield* ServedModels.list(url, key)
    const models = served.models.filter(({ name }) => wanted.length === 0 || wanted.includes(name))
    const missing = wanted.filter((name) => !models.some((model) => model.name === name))
    if (missing.length > 0) return yield* stop(`the server has no model ${missing.join(", ")}. List all: slipway models discover ${url}`)
    if (models.length === 0) return yield* stop("the server lists no models. Load one, then repeat this command.")
    const entries = models.map((model) => compatibleEntry({ baseUrl: served.baseUrl, keyVariable: variable }, model))
    const added = Option.isNone(write) ? null : yield* writeTo(write.value, entries)
    yield* print(json, { baseUrl: served.baseUrl, models: entries, written: added }, () =>
      [
        columns([
          ["MODEL", "CONTEXT", "ANSWER", "PRICES"],
          ...models.map(({ contextTokens, name, outputTokens, prices }) => [
            name,
            tokens(contextTokens),
            tokens(outputTokens),
            prices === null ? "-" : `${prices.input / 1e6} / ${prices.output / 1e6} USD`
          ])
        ]),
        "",
        ...remarks(models),
        ...(added === null || Option.isNone(write)
          ? [
            `Use one: slipway setup --provider compatible --base-url ${shellWord(served.baseUrl)} --model NAME`,
            `Use all: slipway models discover ${shellWord(url)} --write models.json, then start the service with ${FILE}=models.json`,
            "",
            `Settings for "models" in the file of ${FILE}:`,
            JSON.stringify(entries, null, 2)
          ]
          : [
            added.length === 0
              ? `${write.value} has all of them already. Nothing was changed.`
              : `${write.value} has ${added.length} more: ${added.join(", ")}.`,
            `The service uses them when it starts with ${FILE}=${shellWord(path.resolve(write.value))}.`,
            ...(variable === null ? [] : [`Its workers need ${variable} in their environment.`])
          ])
      ].join("\n"))
  })).pipe(
    Command.withDescription(
      "List the models of a server with OpenAI's API, such as vLLM, LiteLLM or Ollama, and print or write the settings to use them. " +
        "Contexts and prices are taken over if the server says them."
    ),
    Command.withExamples([
      { command: "slipway models discover http://localhost:11434/v1", description: "The models of an Ollama of this machine" },
      {
        command: "slipway models discover https://llm.example/v1 --key-variable LITELLM_KEY --write models.json",
        description: "All models of a LiteLLM, into the file of models"
      }
    ])
  )
