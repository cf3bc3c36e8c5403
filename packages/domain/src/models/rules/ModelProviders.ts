/** Rules about providers of models: what may be stored, and the models that follow from it. */
import * as Data from "effect/Data"
import type * as DateTime from "effect/DateTime"
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type { Prices } from "../schema/ModelCatalogue.ts"
import type { CatalogueFile } from "../schema/ModelCatalogueFile.ts"
import type { ModelProvider, ProviderName } from "../schema/ModelProvider.ts"

/** The built-in facts about a provider. */
interface Known {
  readonly label: string
  /** The name of its key in catalogues: an environment variable, whose key wins over a stored one. */
  readonly variable: string
  /** The agent that drives its models, as `slipway agents install` names it. */
  readonly agent: string
  /** Its own address; `null`: owners name one. */
  readonly baseUrl: string | null
}

/** In the order of display. */
export const providers: Readonly<Record<ProviderName, Known>> = {
  anthropic: { label: "Anthropic", variable: "ANTHROPIC_API_KEY", agent: "claude", baseUrl: "https://api.anthropic.com/v1" },
  openai: { label: "OpenAI", variable: "OPENAI_API_KEY", agent: "codex", baseUrl: "https://api.openai.com/v1" },
  xai: { label: "xAI", variable: "XAI_API_KEY", agent: "grok", baseUrl: "https://api.x.ai/v1" },
  // No environment variable: a key of the environment is not sent to an address that an owner chose.
  compatible: { label: "OpenAI-compatible server", variable: "compatible", agent: "opencode", baseUrl: null }
}

/** The settings cannot be stored as they are. `needs`: what has to be given. */
export class IncompleteProvider extends Data.TaggedError("IncompleteProvider")<{ readonly needs: "key" | "baseUrl" | "model" }> {
  override get message() {
    return NEEDS[this.needs]
  }
}

const NEEDS: Record<IncompleteProvider["needs"], string> = {
  key: "Enter the key. A stored key is not sent to another address.",
  baseUrl: "Enter the address of the server, such as http://localhost:11434/v1.",
  model: "Enter the model's name at the server."
}

/** New settings of a provider. */
export interface ProviderChange extends Omit<ModelProvider, "hasKey" | "setAt"> {
  /** `"keep"`: the stored key, if there is one. */
  readonly key: Redacted.Redacted | "keep"
}

/**
 * The settings after the change. Keeps a stored key only for the address that it was given for: who may change the address must not
 * be able to read the key there.
 */
export const decide = (
  before: ModelProvider | null,
  { baseUrl, isDefault, key, model, provider }: ProviderChange,
  setAt: DateTime.Utc
): Result.Result<ModelProvider, IncompleteProvider> => {
  const refuse = (needs: IncompleteProvider["needs"]) => Result.fail(new IncompleteProvider({ needs }))
  const isFree = providers[provider].baseUrl === null
  if (isFree && baseUrl === null) return refuse("baseUrl")
  if (isFree && model === null) return refuse("model")
  const hadKey = before?.hasKey === true
  if (key === "keep" && (hadKey ? before.baseUrl !== baseUrl : !isFree && baseUrl !== null)) return refuse("key")
  return Result.succeed({ provider, hasKey: key !== "keep" || hadKey, baseUrl, model, isDefault, setAt })
}

/** Tokens of a model that Slipway does not know: small enough for most servers. */
const UNKNOWN_MODEL = { contextTokens: 128_000, outputTokens: 8192 }

const NO_PRICES = { input: 0, cachedInput: 0, cacheWrite: 0, output: 0 }

type Entry = CatalogueFile["models"][number]

const compatibleId = (model: string | null): string => `compatible/${model}`

/** A model of a server with OpenAI's chat API. `null`: the server does not say it. */
export interface ServedModel {
  /** Its name at the server. */
  readonly name: string
  /** The most tokens of one request, input and output together. */
  readonly contextTokens: number | null
  readonly outputTokens: number | null
  readonly prices: Prices | null
}

/** The catalogue's entry of such a model. Without prices it costs nothing here. An answer takes at most half of the context. */
export const compatibleEntry = (
  server: { readonly baseUrl: string; readonly keyVariable: string | null },
  { contextTokens, name, outputTokens, prices }: ServedModel
): Entry => {
  const context = contextTokens ?? UNKNOWN_MODEL.contextTokens
  return {
    id: compatibleId(name),
    agentRuntime: "opencode",
    efforts: [],
    approvals: true,
    offline: false,
    upstream: {
      protocol: "openai-chat",
      baseUrl: server.baseUrl,
      model: name,
      keyVariable: server.keyVariable,
      prices: prices ?? NO_PRICES,
      contextTokens: context,
      outputTokens: Math.min(outputTokens ?? UNKNOWN_MODEL.outputTokens, Math.max(1, Math.floor(context / 2)))
    }
  }
}

/** The model of a server that an owner named. */
const compatible = ({ baseUrl, hasKey, model }: ModelProvider): ReadonlyArray<Entry> =>
  baseUrl === null || model === null ? [] : [
    compatibleEntry({ baseUrl, keyVariable: hasKey ? providers.compatible.variable : null }, {
      name: model,
      contextTokens: null,
      outputTokens: null,
      prices: null
    })
  ]

/** The id of the provider's chosen model, or of its first one. `null`: the catalogue has no such model. */
export const chosen = ({ models }: CatalogueFile, { model, provider }: Pick<ModelProvider, "model" | "provider">): string | null => {
  if (provider === "compatible") return models.find(({ id }) => id === compatibleId(model))?.id ?? null
  const { agent, variable } = providers[provider]
  const own = models.filter(({ upstream }) => upstream?.keyVariable === variable && (model === null || upstream.model === model))
  return (own.find(({ agentRuntime }) => agentRuntime === agent) ?? own[0])?.id ?? null
}

/** The facts that stored settings are added to. */
export interface Given {
  readonly file: CatalogueFile
  /** The file is the operator's own. Its addresses and its default win over the stored ones. */
  readonly isOperators: boolean
  /** The variables that the environment sets. Their keys go to no stored address. */
  readonly environment: ReadonlySet<string>
}

/** The models, with those of the providers. */
export const withProviders = ({ environment, file, isOperators }: Given, stored: ReadonlyArray<ModelProvider>): CatalogueFile => {
  const known = new Set(file.models.map(({ id }) => id))
  const own = stored.filter(({ provider }) => provider === "compatible").flatMap(compatible).filter(({ id }) => !known.has(id))
  if (isOperators) return { ...file, models: [...file.models, ...own] }
  const moved = file.models.map((model): Entry => {
    const { upstream } = model
    const variable = upstream?.keyVariable ?? null
    if (upstream === null || variable === null || environment.has(variable)) return model
    const baseUrl = stored.find(({ provider }) => providers[provider].variable === variable)?.baseUrl ?? null
    return baseUrl === null ? model : { ...model, upstream: { ...upstream, baseUrl } }
  })
  const all: CatalogueFile = { ...file, models: [...moved, ...own] }
  const marked = stored.find(({ isDefault }) => isDefault)
  return { ...all, default: (marked === undefined ? null : chosen(all, marked)) ?? file.default }
}
