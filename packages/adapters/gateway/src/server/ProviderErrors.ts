/** Explains to people why a model's provider does not answer. The agent's own text depends on the agent. */
import { authOf, isCloud } from "@slipway/domain/models/schema/CloudUpstream"
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"

export interface ProviderError {
  /** Each kind is logged once, until the provider answers again. */
  readonly kind: "credentials" | "key" | "account" | "rate" | "model" | "provider"
  /** A sentence that says what to do, without secrets. */
  readonly message: string
}

/** Providers report an empty account by text, not by status. */
const NOTHING_LEFT = /insufficient_quota|credit balance|billing|payment/iu

/** How requests to an upstream are authorized, in a sentence about a refusal. */
const accountOf = (upstream: Upstream): string => {
  const clouds = {
    aws: "the AWS credentials of this worker",
    google: "the Google credentials of this worker",
    azure: "the Entra identity of this worker",
    key: ""
  }
  const cloud = isCloud(upstream) ? clouds[authOf(upstream)] : ""
  const { keyVariable } = upstream
  return cloud !== "" ? cloud : keyVariable === null ? "it is asked without a key" : `the key in ${keyVariable}`
}

/** The error for a request that was not sent, because this worker has no credentials. `problem`: why. */
export const credentialsErrorOf = ({ model }: Upstream, problem: string): ProviderError => ({
  kind: "credentials",
  message: `The provider of the model ${model} was not asked. ${problem}`
})

/**
 * `status`: `null` without an answer; then `said` is our own sentence, or empty. Returns `null` if the request itself was wrong, which
 * concerns only the agent.
 */
export const providerErrorOf = (upstream: Upstream, status: number | null, said: string): ProviderError | null => {
  const about = `the model ${upstream.model}`
  const because = status === null ? "" : ` (status ${status})`
  if (status === 401 || status === 403) {
    const remedy = isCloud(upstream) ? "give them access to the model" : "set a valid key"
    return {
      kind: "key",
      message: `The provider of ${about} refuses this service: ${accountOf(upstream)}${because}. The operator must ${remedy}.`
    }
  }
  if (status === 402 || status !== null && status < 500 && NOTHING_LEFT.test(said)) {
    return {
      kind: "account",
      message: `The service's account with the provider of ${about} is used up${because}. The operator must top it up.`
    }
  }
  if (status === 429) {
    return { kind: "rate", message: `The provider of ${about} takes no more requests for now${because}. Send the message again later.` }
  }
  if (status === 404) {
    return { kind: "model", message: `The provider does not know ${about}${because}. The operator must correct the catalogue.` }
  }
  if (status === null || status >= 500) {
    const problem = status === null && said !== "" ? ` ${said}` : ""
    return { kind: "provider", message: `The provider of ${about} does not answer${because}.${problem} Send the message again later.` }
  }
  return null
}
