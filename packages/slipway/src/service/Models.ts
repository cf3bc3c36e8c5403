/** The model catalogue of this process: the file and the stored providers, checked against this machine again and again. */
import * as Installed from "@slipway/agents/Installed"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import { MODELS, ModelProviderStore } from "@slipway/domain/models/ports/ModelProviderStore"
import { type Given, providers, withProviders } from "@slipway/domain/models/rules/ModelProviders"
import { authOf, isCloud } from "@slipway/domain/models/schema/CloudUpstream"
import type { Catalogue, UpstreamAuth } from "@slipway/domain/models/schema/ModelCatalogue"
import {
  CatalogueFile,
  check,
  type Checked,
  defaultFile,
  type ProfileInfo,
  type Surroundings,
  toCatalogue
} from "@slipway/domain/models/schema/ModelCatalogueFile"
import type { ModelProvider } from "@slipway/domain/models/schema/ModelProvider"
import { Hints } from "@slipway/domain/store/Hints"
import * as CloudCredentials from "@slipway/gateway/credentials/CloudCredentials"
import type { Keys } from "@slipway/gateway/ModelGatewayHttp"
import { Config, Context, Effect, Option, Redacted, Schema, SchemaIssue } from "effect"
import { readFile } from "node:fs/promises"
import type { Settings } from "../settings/Settings.ts"

/** The catalogue file is invalid. The message is one line for the operator. */
export class InvalidCatalogue extends Schema.TaggedError<InvalidCatalogue>()("InvalidCatalogue", {
  file: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return `The model catalogue ${this.file} cannot be used: ${this.problem}. See: slipway models --schema`
  }
}

const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(CatalogueFile), { onExcessProperty: "error" })
const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** The entry by position and name, with the field: `models[1] (acme/one).upstream.prices.input`. */
const placeOf = (path: ReadonlyArray<PropertyKey>, text: string): string => {
  const id = (): string => {
    try {
      const found: unknown = JSON.parse(text)?.models?.[String(path[1])]?.id
      return typeof found === "string" ? ` (${found})` : ""
    } catch {
      return ""
    }
  }
  return path.map((key, i) => typeof key === "number" ? `[${key}]${i === 1 ? id() : ""}` : i === 0 ? String(key) : `.${String(key)}`).join(
    ""
  )
}

/** The models of the file; `null`: the built-in ones. */
export const read = Effect.fnUntraced(function*(file: string | null) {
  if (file === null) return defaultFile
  const invalid = (problem: string) => new InvalidCatalogue({ file, problem })
  const text = yield* Effect.tryPromise({
    try: () => readFile(file, "utf8"),
    catch: (error) => invalid(error instanceof Error && "code" in error ? `it cannot be read (${String(error.code)})` : "it cannot be read")
  })
  return yield* Effect.mapError(decode(text), ({ issue }) => {
    const [first] = format(issue).issues
    const path = (first?.path ?? []).map((part) => typeof part === "object" ? part.key : part)
    const said = (first?.message ?? "it is not a catalogue").replaceAll(/\s+/gu, " ")
    return invalid(path.length === 0 ? said : `${placeOf(path, text)}: ${said}`)
  })
})

/** The key's value. An empty value counts as not set. */
const keyIn = (variable: string) =>
  Config.option(Config.Redacted(variable)).pipe(
    Effect.map(Option.filter((key) => Redacted.value(key) !== "")),
    Effect.tap(
      Option.match({ onNone: () => Effect.void, onSome: (key) => Redaction.useSync((redactor) => redactor.learn(Redacted.value(key))) })
    ),
    Effect.orDie
  )

/** The operator's file, or the built-in one, and the keys of the environment. */
export interface Found extends Given {
  /** By variable. */
  readonly keys: ReadonlyMap<string, Redacted.Redacted>
  /** The identities that the models of the file need. */
  readonly auths: ReadonlyArray<UpstreamAuth>
  readonly clouds: CloudCredentials.CloudCredentials
  /** The variables with secrets of those identities. */
  readonly cloudSecrets: ReadonlyArray<string>
}

/** Reads the file, its keys and the variables of clouds. */
export const find = Effect.fn("Models.find")(function*({ modelsFile }: Pick<Settings, "modelsFile">) {
  const file = yield* read(modelsFile)
  const variables = new Set(file.models.flatMap(({ upstream }) => upstream?.keyVariable ?? []))
  const present = yield* Effect.forEach(
    variables,
    (variable) => Effect.map(keyIn(variable), (key) => Option.isSome(key) ? [[variable, key.value] as const] : [])
  )
  const keys = new Map(present.flat())
  const auths = [...new Set(file.models.flatMap(({ upstream }) => upstream !== null && isCloud(upstream) ? [authOf(upstream)] : []))]
  const environment = { ...process.env }
  const cloudSecrets = auths.flatMap((auth) => CloudCredentials.secretsIn(environment, auth))
  yield* Redaction.useSync((redactor) => cloudSecrets.forEach((name) => redactor.learn(environment[name] ?? "")))
  return {
    file,
    isOperators: modelsFile !== null,
    environment: new Set(keys.keys()),
    keys,
    auths,
    clouds: CloudCredentials.ofEnvironment(environment),
    cloudSecrets
  } satisfies Found
})

/** Removes the keys from the environment that child processes inherit. */
export const hideKeys = ({ cloudSecrets, keys }: Pick<Found, "cloudSecrets" | "keys">) =>
  Effect.sync(() => {
    for (const variable of [...keys.keys(), ...cloudSecrets]) delete process.env[variable]
  })

/** Why there are no credentials, by the kind of identity. */
type CloudProblems = ReadonlyMap<UpstreamAuth, string>

const NO_PROBLEMS: CloudProblems = new Map()

/** Asks for the credentials that the models need. */
const cloudProblems = ({ auths, clouds }: Pick<Found, "auths" | "clouds">): Effect.Effect<CloudProblems> =>
  Effect.forEach(auths, (auth) => Effect.map(clouds.problem(auth), (problem) => problem === null ? [] : [[auth, problem] as const]), {
    concurrency: "unbounded"
  }).pipe(Effect.map((found) => new Map(found.flat())))

type Profiles = ReadonlyMap<string, ProfileInfo>

const inspect = Effect.fnUntraced(function*(agentsFolder: string) {
  const infos = yield* Effect.forEach(
    Object.entries(profiles),
    ([name, profile]) =>
      Effect.map(Installed.inspect(name, profile, agentsFolder), (installed): readonly [string, ProfileInfo] => {
        const { images, modelProtocol, reasoningEfforts, toolApprovals } = profile.capabilities
        const problem = installed.state === "ready" ? null : installed.reason
        return [name, { runtime: profile.runtime, modelProtocol, reasoningEfforts, toolApprovals, images, problem }]
      })
  )
  return new Map(infos)
})

/** The models, and those of them that can be used where agents have this isolation. */
export interface Models {
  readonly file: CatalogueFile
  readonly checked: ReadonlyArray<Checked>
  /** The models that this process can run. */
  readonly catalogue: Catalogue
}

/** `infos`: `null` in a process that runs no agents, which takes all models for usable. */
const against = (
  file: CatalogueFile,
  infos: Profiles | null,
  known: Profiles,
  hasKey: Surroundings["hasKey"],
  hostProblem: string | null,
  clouds: CloudProblems
) => {
  const profile = (name: string): ProfileInfo | null => {
    const info = (infos ?? known).get(name)
    return info === undefined ? null : infos === null ? { ...info, problem: null } : info
  }
  const surroundings = infos === null
    ? { profile, hasKey: () => true, hostProblem: null }
    : { profile, hasKey, hostProblem, cloudProblem: (auth: UpstreamAuth) => clouds.get(auth) ?? null }
  const checked = check(file, surroundings)
  return { file, checked, catalogue: toCatalogue(file, checked) } satisfies Models
}

/** For commands: the models as a service would find them here. `hostProblem`: why agents with a model account must not run here. */
export const load = Effect.fnUntraced(function*(settings: Settings, hostProblem: string | null, stored: ReadonlyArray<ModelProvider> = []) {
  const found = yield* find(settings)
  const infos = yield* inspect(Installed.folderIn(settings.dataDir))
  const variables = new Set(stored.flatMap(({ hasKey, provider }) => hasKey ? [providers[provider].variable] : []))
  const hasKey = (variable: string) => found.keys.has(variable) || variables.has(variable)
  return against(withProviders(found, stored), infos, infos, hasKey, hostProblem, yield* cloudProblems(found))
})

/** The models of a running process. Each answer is at most some seconds old. */
export interface LiveModels {
  /** The models that any process might run. */
  readonly everything: () => Catalogue
  /** The models that this process can run. `hostProblem`: why agents with a model account must not run here; `null`: they may. */
  readonly here: (hostProblem: string | null) => Models
  /** For the gateway of this process. */
  readonly keys: Keys
  readonly clouds: CloudCredentials.CloudCredentials
  /** Looks now. */
  readonly refresh: Effect.Effect<void>
}

/** The models of this process. */
export class Live extends Context.Service<Live, LiveModels>()("slipway/service/Models/Live") {}

/** How often a running process asks for the credentials of clouds. They are kept until shortly before they expire. */
const CLOUD_REFRESH = "30 seconds"

/** How long an installed agent stays unnoticed, and a change whose hint is lost. */
const REFRESH = "5 seconds"

/** A function that remembers its last result while its inputs are the same: catalogues may have hundreds of models. */
export const remembered = <const I extends ReadonlyArray<unknown>, A>(make: (...inputs: I) => A) => {
  let known: { readonly inputs: I; readonly value: A } | undefined
  return (...inputs: I): A => {
    if (known === undefined || known.inputs.some((input, i) => input !== inputs[i])) known = { inputs, value: make(...inputs) }
    return known.value
  }
}

/** The result of one look. */
interface Look {
  readonly infos: Profiles
  readonly stored: ReadonlyArray<ModelProvider>
  /** By variable. */
  readonly keys: ReadonlyMap<string, Redacted.Redacted>
  readonly clouds: CloudProblems
}

/** Reads the stored keys. A failure is logged once. */
const revealing = (keys: ModelProviderStore["Service"]["keys"]) => {
  let complaint = ""
  return keys.pipe(
    Effect.map((all) => new Map(Array.from(all, ([name, key]) => [providers[name].variable, key] as const))),
    Effect.tap(Effect.sync(() => complaint = "")),
    Effect.catchTag("SecretsUnusable", ({ problem }) =>
      Effect.gen(function*() {
        if (problem !== complaint) yield* Effect.logError("the stored keys of models' providers cannot be used", { problem })
        complaint = problem
        return new Map<string, Redacted.Redacted>()
      }))
  )
}

/** Looks at the stored providers and the installed agents until the scope closes. A process that only serves HTTP decrypts no keys. */
export const follow = Effect.fn("Models.follow")(function*({ dataDir, role }: Settings, found: Found) {
  const store = yield* ModelProviderStore
  const redaction = yield* Redaction
  const changed = yield* (yield* Hints).watch(MODELS)
  const folder = Installed.folderIn(dataDir)
  const known = yield* inspect(folder)
  const isRunner = role !== "http"
  const revealed = revealing(store.keys)
  let look: Look = { infos: known, stored: [], keys: new Map(), clouds: NO_PROBLEMS }

  const refresh = Effect.gen(function*() {
    const infos = yield* inspect(folder)
    const stored = yield* store.list
    const keys = isRunner ? yield* revealed : look.keys
    for (const [variable, key] of keys) {
      const before = look.keys.get(variable)
      if (before === undefined || Redacted.value(before) !== Redacted.value(key)) redaction.learn(Redacted.value(key))
    }
    // At once, so that no key is used with the address before.
    look = { infos, stored, keys, clouds: look.clouds }
  }).pipe(
    // Callers that wait for the database report its failures.
    Effect.tapCause((cause) => Effect.logDebug("the stored providers of models cannot be read", cause)),
    Effect.ignoreCause
  )
  yield* refresh
  yield* Effect.raceFirst(changed, Effect.sleep(REFRESH)).pipe(Effect.andThen(refresh), Effect.forever, Effect.forkScoped)

  // By itself: a source of credentials may take seconds to answer.
  if (isRunner && found.auths.length > 0) {
    yield* cloudProblems(found).pipe(
      Effect.map((clouds) => look = { ...look, clouds }),
      Effect.andThen(Effect.sleep(CLOUD_REFRESH)),
      Effect.forever,
      Effect.forkScoped
    )
  }

  const fileOf = remembered((stored: Look["stored"]) => withProviders(found, stored))
  const everything = remembered((file: CatalogueFile) => against(file, null, known, () => true, null, NO_PROBLEMS).catalogue)
  const here = remembered(({ clouds, infos, keys, stored }: Look, hostProblem: string | null) => {
    const hasKey = (variable: string) => found.keys.has(variable) || keys.has(variable)
    return against(fileOf(stored), isRunner ? infos : null, known, hasKey, hostProblem, clouds)
  })
  const isAddress = (variable: string, baseUrl: string) =>
    fileOf(look.stored).models.some(({ upstream }) => upstream?.keyVariable === variable && upstream.baseUrl === baseUrl)
  return Live.of({
    everything: () => everything(fileOf(look.stored)),
    here: (hostProblem) => here(look, hostProblem),
    keys: {
      get: (variable, baseUrl) => found.keys.get(variable) ?? (isAddress(variable, baseUrl) ? look.keys.get(variable) : undefined)
    },
    clouds: found.clouds,
    refresh
  })
})

/** A catalogue that is made anew whenever it is read. */
export const readAnew = (now: () => Catalogue): Catalogue => ({
  get default() {
    return now().default
  },
  get models() {
    return now().models
  },
  get unusable() {
    return now().unusable ?? []
  },
  get setup() {
    return now().setup
  }
})
