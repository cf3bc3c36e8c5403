/** The models that a creation may choose, and their abilities (docs/decisions/2.3). A setting. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Counter, text } from "../../text/Text.ts"
import { AgentRuntimeName } from "./AgentRuntimeName.ts"
import { ReasoningEffort } from "./ReasoningEffort.ts"
import type { ToolApprovalMode } from "./ToolApprovalMode.ts"

/** 1 to 200 characters, e.g. `offline/demo`. */
export const ModelId = text(1, 200)

/** Micro-USD per million tokens: 3 USD per million is 3,000,000. */
const Price = Counter

/** The prices of a model's tokens. The input includes cached and written tokens, which have prices of their own. */
export const Prices = Schema.Struct({ input: Price, cachedInput: Price, cacheWrite: Price, output: Price })
export type Prices = typeof Prices.Type

/** The protocols of model APIs that agents speak. */
export const UpstreamProtocol = Schema.Literals(["openai-chat", "openai-responses", "anthropic-messages"])
export type UpstreamProtocol = typeof UpstreamProtocol.Type

/**
 * How requests are authorized: `key` by an API key; `aws` by a signature with the worker's AWS credentials (Bedrock); `google` by a
 * token of the worker's application default credentials (Vertex AI); `azure` by a key in Azure's header, or without a key by a token of
 * Microsoft Entra (Foundry).
 */
export const UpstreamAuth = Schema.Literals(["key", "aws", "google", "azure"])
export type UpstreamAuth = typeof UpstreamAuth.Type

/** The API that the gateway sends a model's requests to. */
export const Upstream = Schema.Struct({
  protocol: UpstreamProtocol,
  /** The part before `/chat/completions`, `/responses` or `/messages`, e.g. `https://api.openai.com/v1`. */
  baseUrl: Schema.String.check(Schema.isPattern(/^https?:\/\/[^\s/?#@]+(?:\/[^\s?#]*)?$/u)),
  /** The model's name in that API. */
  model: Schema.NonEmptyString,
  /** Absent: `key`. */
  auth: Schema.optionalKey(UpstreamAuth),
  /** The AWS region of the signature, if the address does not name it. */
  region: Schema.optionalKey(Schema.String.check(Schema.isPattern(/^[a-z\d-]{1,40}$/u))),
  /** The version of Azure's API for addresses of deployments, e.g. `2024-10-21`. */
  apiVersion: Schema.optionalKey(Schema.String.check(Schema.isPattern(/^[\w.-]{1,40}$/u))),
  /** The worker's environment variable with the API key; `null`: the API needs no key. */
  keyVariable: Schema.NullOr(Schema.NonEmptyString),
  prices: Prices,
  /** The most tokens of one request, input and output together. */
  contextTokens: Counter,
  outputTokens: Counter
})
export type Upstream = typeof Upstream.Type

/** A model of the catalogue. */
export const Model = Schema.Struct({
  id: ModelId,
  agentRuntime: AgentRuntimeName,
  /** The runtime profile that drives it. Several profiles may report one runtime. */
  profile: Schema.String,
  /** The efforts that a creation may choose; empty: none. */
  efforts: Schema.Array(ReasoningEffort),
  /** Whether its runtime can hold a tool call until a person approves it. */
  approvals: Schema.Boolean,
  /** Whether its prompts may have images. Absent: as its runtime profile (`Images.profileTakesImages`). */
  images: Schema.optionalKey(Schema.Boolean),
  /** The model needs no account. A `sbx_test_` key may use only such models. */
  offline: Schema.Boolean,
  /** `null`: the agent uses no model. */
  upstream: Schema.NullOr(Upstream)
})
export type Model = typeof Model.Type

/** A known model that cannot be used at present. */
export interface UnusableModel {
  readonly id: string
  /** A sentence for the caller, without details of the operator's machine. */
  readonly reason: string
  /** Every obstacle, for the operator. */
  readonly problems?: ReadonlyArray<string>
}

/** Facts about a process that its owners should know. */
export interface ModelSetup {
  /** The isolation that is in force, as a sentence; `null`: this process runs no agents. */
  readonly isolation: string | null
  /** The variables of the environment with keys, which win over stored keys. */
  readonly environment: ReadonlySet<string>
  /** The models come from the operator's file. Its addresses and its default win over the stored ones. */
  readonly isOperators: boolean
  /** Applies stored settings to this process, which does so by itself within seconds. */
  readonly apply: Effect.Effect<void>
}

/** The models of a service. */
export interface Catalogue {
  /** The model of a creation that names no model; `null`: a creation must name a model. */
  readonly default: string | null
  readonly models: ReadonlyArray<Model>
  readonly unusable?: ReadonlyArray<UnusableModel>
  readonly setup?: ModelSetup | undefined
}

/** How a worker isolates its agents. */
export interface AgentIsolation {
  /** The technology, such as `bubblewrap`, or `none`. */
  readonly kind: string
  /** Why agents with a model account must not run there, as a sentence for the operator; `null`: they may. */
  readonly problem: string | null
}

/** The models and runtimes that one worker can run. */
export interface Offer {
  readonly usable: ReadonlyArray<string>
  readonly unusable: ReadonlyArray<UnusableModel>
  /** `null`: the worker is of a version that does not report it. */
  readonly isolation?: AgentIsolation | null
}

/**
 * The catalogue, limited to models that the present workers can run. Without workers it is not limited, because a sandbox waits for the
 * first worker.
 */
export const offeredBy = (offers: ReadonlyArray<Offer>, catalogue: Catalogue): Catalogue => {
  if (offers.length === 0) return catalogue
  const isOffered = ({ id }: Model) => offers.some(({ usable }) => usable.includes(id))
  const known = offers.flatMap(({ unusable }) => unusable)
  return {
    ...catalogue,
    models: catalogue.models.filter(isOffered),
    unusable: [
      ...catalogue.unusable ?? [],
      ...catalogue.models.filter((model) => !isOffered(model)).map(({ id }) =>
        known.find((model) => model.id === id) ?? { id, reason: `${id} cannot be used. No worker offers it.` }
      )
    ]
  }
}

/** The model that needs no account: an agent that executes its prompt as a script. */
export const offlineDemo: Model = {
  id: "offline/demo",
  agentRuntime: "opencode",
  profile: "offline",
  efforts: ["none", "low", "medium", "high", "xhigh", "max", "ultra", "ultracode"],
  approvals: true,
  offline: true,
  upstream: null
}

/** The catalogue in force. The default has only the offline model. */
export const ModelCatalogue = Context.Reference<Catalogue>("@slipway/domain/ModelCatalogue", {
  defaultValue: () => ({ default: offlineDemo.id, models: [offlineDemo] })
})

/** The model is unknown to this key, or no model was named and there is no default. */
export class InvalidModel extends Schema.TaggedError<InvalidModel>()("InvalidModel", { reason: Schema.String }) {
  override get message() {
    return this.reason
  }
}
/** The model does not offer this effort. */
export class InvalidReasoningEffort extends Schema.TaggedError<InvalidReasoningEffort>()("InvalidReasoningEffort", {
  model: Schema.String,
  efforts: Schema.Array(ReasoningEffort)
}) {
  override get message() {
    return this.efforts.length === 0
      ? `${this.model} takes no reasoningEffort.`
      : `${this.model} offers these efforts: ${this.efforts.join(", ")}.`
  }
}
/** The model's runtime cannot wait for approvals. A request for approvals is never silently ignored. */
export class ApprovalsUnsupported extends Schema.TaggedError<ApprovalsUnsupported>()("ApprovalsUnsupported", { model: Schema.String }) {
  override get message() {
    return `${this.model} cannot ask for approval of tool calls.`
  }
}

/** Names in the answer to an unknown model. */
const NAMED = 10

const unknownModel = ({ models }: Catalogue, offlineOnly: boolean): string => {
  const usable = models.filter(({ offline }) => offline || !offlineOnly).map(({ id }) => id)
  const names = [...usable.slice(0, NAMED), ...(usable.length > NAMED ? [`and ${usable.length - NAMED} others`] : [])]
  return usable.length === 0 ? "There is no such model." : `There is no such model. Usable models: ${names.join(", ")}.`
}

/** The models and effort of a creation, or why it is refused. `offlineOnly`: the key is a test key. */
export const choose = (
  catalogue: Catalogue,
  request: {
    readonly model: string | undefined
    readonly reasoningEffort: ReasoningEffort | undefined
    readonly toolApprovalMode: ToolApprovalMode
    readonly offlineOnly: boolean
  }
): Result.Result<Model, InvalidModel | InvalidReasoningEffort | ApprovalsUnsupported> => {
  const id = request.model ?? catalogue.default
  if (id === null) return Result.fail(new InvalidModel({ reason: "No model is named and there is no default one." }))
  const model = catalogue.models.find((candidate) => candidate.id === id)
  if (model === undefined) {
    const unusable = catalogue.unusable?.find((candidate) => candidate.id === id)
    return Result.fail(new InvalidModel({ reason: unusable?.reason ?? unknownModel(catalogue, request.offlineOnly) }))
  }
  if (request.offlineOnly && !model.offline) {
    return Result.fail(new InvalidModel({ reason: "A test key can only use models that are marked offline." }))
  }
  if (request.reasoningEffort !== undefined && !model.efforts.includes(request.reasoningEffort)) {
    return Result.fail(new InvalidReasoningEffort({ model: id, efforts: model.efforts }))
  }
  if (request.toolApprovalMode === "prompt" && !model.approvals) return Result.fail(new ApprovalsUnsupported({ model: id }))
  return Result.succeed(model)
}
