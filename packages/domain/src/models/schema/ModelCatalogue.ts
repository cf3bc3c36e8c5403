/** The models a creation may name, and what each can do (docs/decisions/2.3). Configuration. */
import * as Context from "effect/Context"
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

/** What a model's tokens cost. Cached and written tokens are part of the input, and cost these instead. */
export const Prices = Schema.Struct({ input: Price, cachedInput: Price, cacheWrite: Price, output: Price })
export type Prices = typeof Prices.Type

/** The protocols of model APIs that agents speak. */
export const UpstreamProtocol = Schema.Literals(["openai-chat", "openai-responses", "anthropic-messages"])
export type UpstreamProtocol = typeof UpstreamProtocol.Type

/** Where the gateway sends a model's requests. */
export const Upstream = Schema.Struct({
  protocol: UpstreamProtocol,
  /** What comes before `/chat/completions`, `/responses` or `/messages`, e.g. `https://api.openai.com/v1`. */
  baseUrl: Schema.String.check(Schema.isPattern(/^https?:\/\/[^\s/?#@]+(?:\/[^\s?#]*)?$/u)),
  /** The model's name there. */
  model: Schema.NonEmptyString,
  /** Environment variable of the worker that holds the account's key; `null`: the upstream wants none. */
  keyVariable: Schema.NullOr(Schema.NonEmptyString),
  prices: Prices,
  /** Tokens the model takes in and gives out in one request. */
  contextTokens: Counter,
  outputTokens: Counter
})
export type Upstream = typeof Upstream.Type

/** A model that can be named, as the catalogue describes it. */
export const Model = Schema.Struct({
  id: ModelId,
  agentRuntime: AgentRuntimeName,
  /** Runtime profile that drives it; several profiles may report one runtime. */
  profile: Schema.String,
  /** Efforts a creation may ask for; empty: none. */
  efforts: Schema.Array(ReasoningEffort),
  /** Whether its runtime can hold a tool call until somebody approves it. */
  approvals: Schema.Boolean,
  /** Needs no model account: the only kind a `sbx_test_` key may use. */
  offline: Schema.Boolean,
  /** `null`: the agent uses no model. */
  upstream: Schema.NullOr(Upstream)
})
export type Model = typeof Model.Type

/** A model that is known but cannot be used as things are. */
export interface UnusableModel {
  readonly id: string
  /** A sentence for whoever names it; nothing of the operator's machine. */
  readonly reason: string
}

/** The models of a service. */
export interface Catalogue {
  /** Chosen when a creation names none; `null`: it must name one. */
  readonly default: string | null
  readonly models: ReadonlyArray<Model>
  readonly unusable?: ReadonlyArray<UnusableModel>
}

/** What one worker can run. */
export interface Offer {
  readonly usable: ReadonlyArray<string>
  readonly unusable: ReadonlyArray<UnusableModel>
}

/**
 * The catalogue as the workers that are there can serve it. While there is none, nothing is held against a model: a sandbox
 * waits for the first one.
 */
export const offeredBy = (offers: ReadonlyArray<Offer>, catalogue: Catalogue): Catalogue => {
  if (offers.length === 0) return catalogue
  const isOffered = ({ id }: Model) => offers.some(({ usable }) => usable.includes(id))
  const reasonOf = (id: string) => offers.flatMap(({ unusable }) => unusable).find((model) => model.id === id)?.reason
  return {
    default: catalogue.default,
    models: catalogue.models.filter(isOffered),
    unusable: [
      ...catalogue.unusable ?? [],
      ...catalogue.models.filter((model) => !isOffered(model)).map(({ id }) => ({
        id,
        reason: reasonOf(id) ?? `${id} cannot be used. No worker offers it.`
      }))
    ]
  }
}

/** The model that needs no account: an agent whose script is the prompt. */
export const offlineDemo: Model = {
  id: "offline/demo",
  agentRuntime: "opencode",
  profile: "offline",
  efforts: ["none", "low", "medium", "high", "xhigh", "max", "ultra", "ultracode"],
  approvals: true,
  offline: true,
  upstream: null
}

/** The catalogue in force. Without one, the offline model alone. */
export const ModelCatalogue = Context.Reference<Catalogue>("@slipway/domain/ModelCatalogue", {
  defaultValue: () => ({ default: offlineDemo.id, models: [offlineDemo] })
})

/** No such model for this key, or none was named and there is no default. */
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
/** The model's runtime cannot wait for approvals; asking for them is never silently ignored. */
export class ApprovalsUnsupported extends Schema.TaggedError<ApprovalsUnsupported>()("ApprovalsUnsupported", { model: Schema.String }) {
  override get message() {
    return `${this.model} cannot ask for approval of tool calls.`
  }
}

/** The catalogue's answer to a creation. `offlineOnly`: the key is a test key. */
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
    return Result.fail(new InvalidModel({ reason: unusable?.reason ?? "There is no such model." }))
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
