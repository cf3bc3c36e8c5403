/** The operator's file of models, and which of its models can be used. The file is JSON, and unknown keys are refused. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { AgentRuntimeName } from "./AgentRuntimeName.ts"
import { authOf, cloudMisfit, isCloud } from "./CloudUpstream.ts"
import { type Catalogue, type Model, ModelId, offlineDemo, Upstream, type UpstreamAuth, type UpstreamProtocol } from "./ModelCatalogue.ts"
import { ReasoningEffort } from "./ReasoningEffort.ts"

const About = (description: string) => ({ description })

/** One model of the file. */
const ModelEntry = Schema.Struct({
  id: ModelId.annotateKey(About("What a creation names, e.g. anthropic/claude-opus-5-5.")),
  agentRuntime: AgentRuntimeName.annotateKey(About("The agent that drives it.")),
  profile: Schema.optionalKey(Schema.NonEmptyString).annotateKey(About("Runtime profile; without it, the one named like the agent.")),
  efforts: Schema.Array(ReasoningEffort).pipe(Schema.withDecodingDefaultKey(Effect.succeed([]))).annotateKey(
    About("Reasoning efforts a creation may ask for, of those its agent has.")
  ),
  approvals: Schema.Boolean.pipe(Schema.withDecodingDefaultKey(Effect.succeed(true))).annotateKey(
    About("Whether tool calls may be made to wait for approval.")
  ),
  images: Schema.optionalKey(Schema.Boolean).annotateKey(
    About("Whether its prompts may have images; without it, as its agent.")
  ),
  offline: Schema.Boolean.pipe(Schema.withDecodingDefaultKey(Effect.succeed(false))).annotateKey(
    About("Needs no model account, so that test keys may use it.")
  ),
  upstream: Schema.NullOr(Upstream).pipe(Schema.withDecodingDefaultKey(Effect.succeed(null))).annotateKey(
    About("Where its requests go; null: the agent uses no model. Prices are in micro-USD per million tokens: 3 USD are 3000000.")
  )
})
type ModelEntry = typeof ModelEntry.Type

/** The file of models. */
export const CatalogueFile = Schema.Struct({
  $schema: Schema.optionalKey(Schema.String),
  default: Schema.NullOr(ModelId).annotateKey(About("Chosen when a creation names no model; null: it must name one.")),
  models: Schema.Array(ModelEntry)
}).check(
  Schema.makeFilter(({ models }: { readonly models: ReadonlyArray<{ readonly id: string }> }) => {
    const twice = models.find(({ id }, i) => models.findIndex((other) => other.id === id) !== i)
    return twice === undefined ? undefined : `${twice.id} is there twice`
  }),
  Schema.makeFilter((file: { readonly default: string | null; readonly models: ReadonlyArray<{ readonly id: string }> }) =>
    file.default === null || file.models.some(({ id }) => id === file.default)
      ? undefined
      : `there is no model ${file.default} to be the default`
  )
).annotate({ identifier: "ModelCatalogue" })
export type CatalogueFile = typeof CatalogueFile.Type

/** The abilities of a runtime profile on this machine, now. */
export interface ProfileInfo {
  readonly runtime: AgentRuntimeName
  readonly toolApprovals: boolean
  readonly images: boolean
  readonly reasoningEfforts: ReadonlyArray<ReasoningEffort>
  /** The model API of the profile; `null`: it needs no model. */
  readonly modelProtocol: UpstreamProtocol | null
  /** Why the profile cannot be started, for the operator; `null`: it can. */
  readonly problem: string | null
}

/** The facts about this machine that decide which models can be used. */
export interface Surroundings {
  /** `null`: no such profile. */
  readonly profile: (name: string) => ProfileInfo | null
  /** Whether the environment variable holds a key, or a key is stored under its name. */
  readonly hasKey: (variable: string) => boolean
  /** Why this machine has no credentials of the cloud, for the operator; `null`: it has them. Absent: not known here. */
  readonly cloudProblem?: (auth: UpstreamAuth) => string | null
  /** Why agents with a model account must not run on this host, for the operator; `null`: they may. */
  readonly hostProblem: string | null
}

/** A model of the file. It can be used if there are no problems. */
export interface Checked {
  readonly model: Model
  /** Every obstacle, for the operator. */
  readonly problems: ReadonlyArray<string>
  /** The first obstacle, for callers; `null`: the model can be used. */
  readonly reason: string | null
}

type Obstacle = readonly [problem: string, reason: string]

const NO_ACCOUNT = "This service has no account for it."

/** The fault of the entry itself; `null`: none. */
const misfitOf = (model: Model, info: ProfileInfo | null): string | null => {
  if (info === null) return `There is no runtime profile ${model.profile}.`
  const misfit = model.upstream === null ? null : cloudMisfit(model.upstream)
  if (misfit !== null) return misfit
  if (info.runtime !== model.agentRuntime) return `The profile ${model.profile} runs ${info.runtime}, not ${model.agentRuntime}.`
  if (info.modelProtocol !== null && model.upstream === null) {
    return `${model.profile} needs an upstream that speaks ${info.modelProtocol}.`
  }
  if (model.upstream !== null && model.upstream.protocol !== info.modelProtocol) {
    return `${model.profile} speaks ${info.modelProtocol ?? "to no model"}, not ${model.upstream.protocol}.`
  }
  const efforts = model.efforts.filter((effort) => !info.reasoningEfforts.includes(effort))
  if (efforts.length > 0) return `${model.profile} does not have these efforts: ${efforts.join(", ")}.`
  if (model.approvals && !info.toolApprovals) {
    return `${model.profile} cannot hold tool calls until they are approved: set approvals to false.`
  }
  if (model.images === true && !info.images) return `${model.profile} takes no images: set images to false.`
  return null
}

const obstaclesOf = (model: Model, { cloudProblem, hasKey, hostProblem, profile }: Surroundings): ReadonlyArray<Obstacle> => {
  const info = profile(model.profile)
  const misfit = misfitOf(model, info)
  if (misfit !== null) return [[misfit, "It is not set up correctly in this service."]]
  const obstacles: Array<Obstacle> = model.upstream !== null && hostProblem !== null
    ? [[hostProblem, "This service runs offline models only."]]
    : []
  const problem = info?.problem ?? null
  if (problem !== null) obstacles.push([problem, `Its agent runtime, ${model.agentRuntime}, is not installed.`])
  const variable = model.upstream?.keyVariable ?? null
  if (variable !== null && !hasKey(variable)) {
    obstacles.push([`There is no key: run slipway setup, or set ${variable}.`, NO_ACCOUNT])
  }
  const cloud = model.upstream !== null && isCloud(model.upstream) ? cloudProblem?.(authOf(model.upstream)) ?? null : null
  if (cloud !== null) obstacles.push([cloud, NO_ACCOUNT])
  return obstacles
}

/** Every model of the file, in the file's order. */
export const check = ({ models }: CatalogueFile, surroundings: Surroundings): ReadonlyArray<Checked> =>
  models.map(({ profile, ...entry }) => {
    const model: Model = { ...entry, profile: profile ?? entry.agentRuntime }
    const obstacles = obstaclesOf(model, surroundings)
    const [first] = obstacles
    return {
      model,
      problems: obstacles.map(([problem]) => problem),
      reason: first === undefined ? null : `${model.id} cannot be used. ${first[1]}`
    }
  })

/** The catalogue of the usable models. */
export const toCatalogue = (file: CatalogueFile, checked: ReadonlyArray<Checked>): Catalogue => ({
  default: file.default,
  models: checked.filter(({ reason }) => reason === null).map(({ model }) => model),
  unusable: checked.flatMap(({ model: { id }, problems, reason }) => reason === null ? [] : [{ id, reason, problems }])
})

const USD = 1_000_000

/** Prices in USD per million tokens, as providers list them. */
const prices = (input: number, cachedInput: number, cacheWrite: number, output: number) => ({
  input: Math.round(input * USD),
  cachedInput: Math.round(cachedInput * USD),
  cacheWrite: Math.round(cacheWrite * USD),
  output: Math.round(output * USD)
})

const grok: Upstream = {
  protocol: "openai-chat",
  baseUrl: "https://api.x.ai/v1",
  model: "grok-4.7",
  keyVariable: "XAI_API_KEY",
  prices: prices(2, 0.5, 2, 6),
  contextTokens: 200_000,
  outputTokens: 64_000
}

/**
 * The catalogue without a file: the offline model, and one model for each runtime with the providers' list prices of 2026-11-21. If
 * long contexts cost more, `contextTokens` ends where the ordinary price does. A cache write has the highest of its prices.
 */
export const defaultFile: CatalogueFile = {
  default: offlineDemo.id,
  models: [
    offlineDemo,
    {
      id: "anthropic/claude-opus-5-5",
      agentRuntime: "claude",
      efforts: ["low", "medium", "high", "xhigh", "max"],
      approvals: true,
      offline: false,
      upstream: {
        protocol: "anthropic-messages",
        baseUrl: "https://api.anthropic.com/v1",
        model: "claude-opus-5-5",
        keyVariable: "ANTHROPIC_API_KEY",
        prices: prices(4, 0.2, 8, 20),
        contextTokens: 1_000_000,
        outputTokens: 128_000
      }
    },
    {
      id: "openai/gpt-6.1-sol",
      agentRuntime: "codex",
      efforts: ["low", "medium", "high", "xhigh", "max"],
      approvals: true,
      offline: false,
      upstream: {
        protocol: "openai-responses",
        baseUrl: "https://api.openai.com/v1",
        model: "gpt-6.1-sol",
        keyVariable: "OPENAI_API_KEY",
        prices: prices(2, 0.1, 2.5, 10),
        contextTokens: 272_000,
        outputTokens: 128_000
      }
    },
    {
      id: "xai/grok-4.7",
      agentRuntime: "grok",
      efforts: ["low", "medium", "high", "xhigh"],
      approvals: true,
      offline: false,
      upstream: grok
    },
    {
      id: "opencode/grok-4.7",
      agentRuntime: "opencode",
      efforts: ["low", "medium", "high", "xhigh"],
      approvals: true,
      offline: false,
      upstream: grok
    }
  ]
}
