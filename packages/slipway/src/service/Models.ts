/** The model catalogue of this process: the file, checked against this machine. */
import * as Installed from "@slipway/agents/Installed"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import type { Catalogue } from "@slipway/domain/models/schema/ModelCatalogue"
import {
  CatalogueFile,
  check,
  type Checked,
  defaultFile,
  type ProfileInfo,
  type Surroundings,
  toCatalogue
} from "@slipway/domain/models/schema/ModelCatalogueFile"
import { Config, Effect, Option, Redacted, Schema, SchemaIssue } from "effect"
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

const read = Effect.fnUntraced(function*(file: string | null) {
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

/** The models and keys of this machine, before isolation is known. */
interface Found {
  /** The models that any process might run. */
  readonly everything: Catalogue
  /** The keys of the operator's accounts, by variable. */
  readonly keys: ReadonlyMap<string, Redacted.Redacted>
}

export interface Models extends Found {
  readonly default: string | null
  readonly checked: ReadonlyArray<Checked>
  /** The models that this process can run. */
  readonly catalogue: Catalogue
}

const inspect = Effect.fnUntraced(function*(agentsFolder: string) {
  const infos = yield* Effect.forEach(
    Object.entries(profiles),
    ([name, profile]) =>
      Effect.map(Installed.inspect(name, profile, agentsFolder), (installed): readonly [string, ProfileInfo] => {
        const { modelProtocol, reasoningEfforts, toolApprovals } = profile.capabilities
        const problem = installed.state === "ready" ? null : installed.reason
        return [name, { runtime: profile.runtime, modelProtocol, reasoningEfforts, toolApprovals, problem }]
      })
  )
  return new Map(infos)
})

/**
 * Reads the file, its keys, and the installed agents. A process that only serves HTTP has neither keys nor agents. `against` returns
 * the usable models. `hostProblem`: why agents with a model account must not run here; `null`: they may.
 */
export const find = Effect.fn("Models.find")(function*({ dataDir, modelsFile, role }: Settings) {
  const file = yield* read(modelsFile)
  const infos = yield* inspect(Installed.folderIn(dataDir))
  const variables = new Set(file.models.flatMap(({ upstream }) => upstream?.keyVariable ?? []))
  const present = yield* Effect.forEach(
    variables,
    (variable) => Effect.map(keyIn(variable), (key) => Option.isSome(key) ? [[variable, key.value] as const] : [])
  )
  const keys = new Map(present.flat())
  const anywhere: Surroundings = {
    profile: (name) => {
      const info = infos.get(name)
      return info === undefined ? null : { ...info, problem: null }
    },
    hasKey: () => true,
    hostProblem: null
  }
  const found: Found = { everything: toCatalogue(file, check(file, anywhere)), keys }
  const against = (hostProblem: string | null): Models => {
    const here: Surroundings = {
      profile: (name) => infos.get(name) ?? null,
      hasKey: (variable) => keys.has(variable),
      hostProblem
    }
    const checked = check(file, role === "http" ? anywhere : here)
    return { ...found, default: file.default, checked, catalogue: toCatalogue(file, checked) }
  }
  return { ...found, against }
})

/** Like {@link find}, with a known isolation. */
export const load = (settings: Settings, hostProblem: string | null) => Effect.map(find(settings), ({ against }) => against(hostProblem))

/** Removes the keys from the environment that child processes inherit. */
export const hideKeys = ({ keys }: Found) =>
  Effect.sync(() => {
    for (const variable of keys.keys()) delete process.env[variable]
  })
