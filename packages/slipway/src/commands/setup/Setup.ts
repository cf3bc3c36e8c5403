/** `slipway setup`: connects the service to a provider of models, without a restart. */
import { Acting } from "@slipway/domain/access/ports/AuditLog"
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import { ModelProviderStore } from "@slipway/domain/models/ports/ModelProviderStore"
import { chosen, providers, withProviders } from "@slipway/domain/models/rules/ModelProviders"
import { type ModelProvider, ProviderName } from "@slipway/domain/models/schema/ModelProvider"
import { ModelProviders } from "@slipway/domain/models/usecases/ModelProviders"
import { Config, Console, DateTime, Effect, Option, Redacted, Schema, Stdio } from "effect"
import { Command, Flag, Prompt } from "effect/cli"
import { readFile } from "node:fs/promises"
import * as InstallAgents from "../../service/InstallAgents.ts"
import * as Isolation from "../../service/machine/Isolation.ts"
import * as Models from "../../service/Models.ts"
import * as RunningServices from "../../service/RunningServices.ts"
import * as ModelSettings from "../../settings/Models.ts"
import * as Settings from "../../settings/Settings.ts"
import { stores } from "../admin/Administration.ts"
import { json, print } from "../terminal/Output.ts"
import * as ModelReport from "./ModelReport.ts"

const FILE = ModelSettings.settings.modelsFile.name

/** The setup stopped. The message says what is stored, and what to do. */
class SetupStopped extends Schema.TaggedError<SetupStopped>()("SetupStopped", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

const stop = (detail: string) => new SetupStopped({ detail })

const names = ProviderName.literals

/** The variable with a key for this command: a scripted setup gives it there, or in a file. */
const variableOf = (provider: ProviderName): string => provider === "compatible" ? "OPENAI_API_KEY" : providers[provider].variable

interface Flags {
  readonly provider: Option.Option<ProviderName>
  readonly keyFile: Option.Option<string>
  readonly baseUrl: Option.Option<string>
  readonly model: Option.Option<string>
  readonly yes: boolean
}

const providerOf = ({ provider }: Flags, isTerminal: boolean) =>
  Option.isSome(provider)
    ? Effect.succeed(provider.value)
    : isTerminal
    ? Prompt.run(Prompt.Select({ message: "Provider", choices: names.map((name) => ({ title: providers[name].label, value: name })) }))
    : Effect.fail(stop(`choose a provider: --provider ${names.join(", ")}`))

/** The key of the file, the environment or a hidden prompt; an empty answer: none. It never stands in an argument. */
const keyOf = Effect.fnUntraced(function*(provider: ProviderName, { keyFile }: Flags, isTerminal: boolean, isStored: boolean) {
  const variable = variableOf(provider)
  const inEnvironment = yield* Effect.orDie(Config.option(Config.Redacted(variable)))
  // Programs that this command starts inherit the rest.
  yield* Effect.sync(() => delete process.env[variable])
  const text = Option.isSome(keyFile)
    ? (yield* Effect.tryPromise({
      try: () => readFile(keyFile.value, "utf8"),
      catch: () => stop(`the key file ${keyFile.value} cannot be read.`)
    })).trim()
    : Option.isSome(inEnvironment) && Redacted.value(inEnvironment.value) !== ""
    ? Redacted.value(inEnvironment.value)
    : isTerminal
    ? Redacted.value(
      yield* Prompt.run(Prompt.Hidden({
        message: isStored
          ? "Key (empty: keep the stored one)"
          : provider === "compatible"
          ? "Key (empty: the server needs none)"
          : `Key of ${providers[provider].label}`
      }))
    )
    : ""
  yield* Redaction.useSync((redaction) => redaction.learn(text))
  return text === "" ? "keep" as const : Redacted.make(text)
})

/** The answer to a question about a server that Slipway does not know. */
const ask = (given: Option.Option<string>, stored: string | null, isTerminal: boolean, flag: string, message: string) =>
  Option.isSome(given)
    ? Effect.succeed(given.value)
    : stored !== null
    ? Effect.succeed(stored)
    : isTerminal
    ? Prompt.run(Prompt.String({ message }))
    : Effect.fail(stop(`an OpenAI-compatible server needs ${flag}.`))

/** The change, and the model that it makes the default. */
const wanted = Effect.fnUntraced(function*(
  flags: Flags,
  provider: ProviderName,
  before: ModelProvider | undefined,
  found: Models.Found,
  isTerminal: boolean
) {
  const isFree = provider === "compatible"
  const baseUrl = isFree
    ? yield* ask(flags.baseUrl, before?.baseUrl ?? null, isTerminal, "--base-url", "Address, such as http://localhost:11434/v1")
    : Option.getOrElse(flags.baseUrl, () => before?.baseUrl ?? null)
  const named = isFree
    ? yield* ask(flags.model, before?.model ?? null, isTerminal, "--model", "Name of the model at the server")
    : Option.getOrNull(flags.model)
  const own = found.file.models.filter(({ upstream }) => upstream?.keyVariable === providers[provider].variable)
  const model = isFree ? named : own.find(({ id }) => id === named)?.upstream?.model ?? named
  const record: ModelProvider = { provider, hasKey: true, baseUrl, model, isDefault: true, setAt: yield* DateTime.now }
  const file = withProviders(found, [record])
  const id = chosen(file, record)
  const entry = file.models.find((one) => one.id === id)
  if (id === null || entry === undefined) {
    const known = own.map(({ id }) => id).join(", ")
    return yield* stop(
      `there is no model ${model ?? ""} of ${providers[provider].label}. ` +
        (known === "" ? `The file in ${FILE} has none of its models.` : `There are: ${known}. Others need a file in ${FILE}.`)
    )
  }
  return { baseUrl, model, id, agent: entry.profile ?? entry.agentRuntime }
})

/** How long a running service may take to use what was stored. */
const PATIENCE_SECONDS = 20

/** The isolation in which the running service's agents run; without a service, the one of this machine under these settings. */
const isolationOf = Effect.fnUntraced(function*(settings: Settings.Settings, isUp: boolean) {
  for (let second = 0;; second++) {
    const reported = yield* ModelReport.isolation
    if (reported !== null) return reported
    if (!isUp || second >= PATIENCE_SECONDS) return yield* Effect.scoped(Isolation.choose({ ...settings, role: "all" }))
    yield* Effect.sleep("1 second")
  }
})

/**
 * Asks until the model can be used, or only the isolation is missing, which a running service does not choose again. The last answer
 * otherwise, and at once if no service runs here.
 */
const untilUsable = Effect.fnUntraced(function*(settings: Settings.Settings, id: string, isUp: boolean, hostProblem: string | null) {
  for (let second = 0;; second++) {
    const { isRunning, models } = yield* ModelReport.read(settings, Effect.succeed(hostProblem))
    const problems = models.find((model) => model.id === id)?.problems ?? ["The service does not know it yet."]
    const isDone = isRunning ? problems.every((problem) => problem === hostProblem) : !isUp
    if (isDone || second >= PATIENCE_SECONDS) return { isRunning, problems }
    yield* Effect.sleep("1 second")
  }
})

/** Agrees to the download of an agent, unless it is there. */
const agreed = Effect.fnUntraced(function*(agent: string, folder: string, yes: boolean, isTerminal: boolean) {
  const lacking = yield* InstallAgents.lacking(agent, folder)
  if (lacking === null || yes) return
  const what = `Install the agent ${agent} ${lacking.version} from the npm registry? ${lacking.notice ?? ""}`.trim()
  const isAgreed = isTerminal && (yield* Prompt.run(Prompt.Confirm({ message: what, initial: true })))
  const advice = `nothing was stored. ${agent} is not installed: repeat with --yes to install it. ${lacking.notice ?? ""}`
  if (!isAgreed) return yield* stop(advice.trim())
})

const set = Effect.fnUntraced(function*(flags: Flags, settings: Settings.Settings) {
  const stdio = yield* Stdio.Stdio
  const isTerminal = yield* stdio.stdinIsTerminal
  const progress = (step: string) => Console.error(`slipway: ${step}`)
  const provider = yield* providerOf(flags, isTerminal)
  const before = (yield* (yield* ModelProviderStore).list).find((one) => one.provider === provider)
  const found = yield* Models.find(settings)
  const { agent, baseUrl, id, model } = yield* wanted(flags, provider, before, found, isTerminal)
  const key = yield* keyOf(provider, flags, isTerminal, before?.hasKey === true && before.baseUrl === baseUrl)
  if (key === "keep" && before?.hasKey !== true && provider !== "compatible") {
    return yield* stop(`a key is needed: --key-file FILE, or ${variableOf(provider)} in the environment.`)
  }
  // Its worker may be starting, and has reported nothing then.
  const isUp = (yield* RunningServices.addressOf(settings)) !== null
  const isolation = yield* isolationOf(settings, isUp)
  // Before the download, so that people can mend it meanwhile.
  if (isolation.problem !== null) yield* progress(Isolation.sentence(isolation))
  yield* agreed(agent, settings.dataDir, flags.yes, isTerminal)
  yield* (yield* ModelProviders).set({ provider, key, baseUrl, model, isDefault: true })
  yield* progress(`the settings of ${providers[provider].label} are stored${key === "keep" ? "" : ", its key encrypted"}`)
  yield* InstallAgents.installInto(settings, [agent], progress)
  const { isRunning, problems } = yield* untilUsable(settings, id, isUp, isolation.problem)
  const advised = problems.map((problem) => problem === isolation.problem ? Isolation.sentence(isolation) : problem)
  return { provider, id, isRunning, problems: advised, isolation: Isolation.sentence(isolation), isOverruled: found.isOperators }
})

const choice = Flag.Literals("provider", names).pipe(Flag.withDescription("Provider of models"), Flag.optional)

export const setup = Command.make("setup", {
  provider: choice,
  keyFile: Flag.File("key-file", { mustExist: true }).pipe(
    Flag.withDescription("File with the provider's key. Without it: ANTHROPIC_API_KEY, OPENAI_API_KEY or XAI_API_KEY, or a hidden prompt"),
    Flag.optional
  ),
  baseUrl: Flag.String("base-url").pipe(
    Flag.withDescription("Address of the API, of another server than the provider's own"),
    Flag.optional
  ),
  model: Flag.String("model").pipe(Flag.withDescription("The default model. Without it, the provider's first"), Flag.optional),
  yes: Flag.Boolean("yes").pipe(Flag.withDescription("Install the agent without asking"), Flag.withDefault(false)),
  json
}, ({ json, ...flags }) =>
  Effect.gen(function*() {
    const settings = yield* Effect.flatMap(Settings.load, RunningServices.find)
    const result = yield* Effect.provide(set(flags, settings), stores(settings))
    const { id, isOverruled, isRunning, isolation, problems } = result
    if (problems.length > 0) return yield* stop(`the settings are stored, but ${id} cannot be used yet. ${ModelReport.sentences(problems)}`)
    yield* print(json, result, () =>
      [
        isOverruled ? `${id} is ready. The file in ${FILE} decides the default.` : `${id} is ready, and the default model.`,
        isRunning ? "The running service uses it from now on." : "No service is running: the next one uses it.",
        isolation,
        "Try it: slipway run OWNER/NAME \"What does this repository do?\""
      ].join("\n"))
  }).pipe(Effect.provideService(Acting, { _tag: "Operator" }), Effect.scoped)).pipe(
    Command.withDescription(
      "Connect the service to a provider of models: stores its key encrypted, installs its agent, makes its model the default. " +
        "A running service uses it at once. Asks at a terminal for what is not given.\n\n" +
        `Providers: ${names.join(", ")} (any server with OpenAI's chat API, such as vLLM, LiteLLM or Ollama).`
    ),
    Command.withExamples([
      { command: "slipway setup", description: "Asks for the provider and its key" },
      { command: "slipway setup --provider anthropic --key-file key.txt --yes", description: "Without questions, for a script" },
      {
        command: "slipway setup --provider compatible --base-url http://localhost:11434/v1 --model qwen3 --yes",
        description: "A model of your own machine"
      }
    ])
  )
