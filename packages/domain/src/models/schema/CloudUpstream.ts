/** Upstreams at clouds: what their addresses say, and which of their settings fit together. */
import type { Upstream, UpstreamAuth } from "./ModelCatalogue.ts"

/** The authorization of an upstream: `key` if it names none. */
export const authOf = ({ auth = "key" }: Pick<Upstream, "auth">): UpstreamAuth => auth

/** Whether requests are authorized by an identity of the worker at a cloud, not by a key. */
export const isCloud = (upstream: Pick<Upstream, "auth" | "keyVariable">): boolean => {
  const auth = authOf(upstream)
  return auth === "aws" || auth === "google" || auth === "azure" && upstream.keyVariable === null
}

/** An endpoint of Amazon Bedrock. */
export interface AwsEndpoint {
  readonly region: string
  /** The service of the signature. */
  readonly service: "bedrock" | "bedrock-mantle"
}

const AWS_HOST = /(?:^|\.)bedrock-(runtime|mantle)(?:-fips)?\.([a-z\d-]{1,40})\./u

/** `null`: neither the address nor `region` names the region. */
export const awsEndpoint = ({ baseUrl, region }: Pick<Upstream, "baseUrl" | "region">): AwsEndpoint | null => {
  const [, endpoint, named] = AWS_HOST.exec(new URL(baseUrl).hostname) ?? []
  const chosen = region ?? named
  return chosen === undefined ? null : { region: chosen, service: endpoint === "mantle" ? "bedrock-mantle" : "bedrock" }
}

/** The setting that does not fit `auth`, as a sentence for the operator; `null`: all fit. */
export const cloudMisfit = (upstream: Upstream): string | null => {
  const auth = authOf(upstream)
  if (isCloud(upstream) && upstream.keyVariable !== null) {
    return `An upstream with auth ${auth} has no key: set keyVariable to null, or auth to key.`
  }
  if (auth !== "azure" && upstream.apiVersion !== undefined) return "Only an upstream with auth azure takes apiVersion."
  if (auth !== "aws" && upstream.region !== undefined) return "Only an upstream with auth aws takes region."
  if (auth === "aws" && awsEndpoint(upstream) === null) {
    return "Its address names no AWS region: set region, or take an address such as https://bedrock-runtime.us-east-1.amazonaws.com."
  }
  if (auth === "google" && upstream.protocol === "openai-responses") {
    return "Vertex AI has no Responses API: set protocol to openai-chat or anthropic-messages."
  }
  return null
}
