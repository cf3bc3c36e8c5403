/** The destination of each upstream. */
import { authOf, awsEndpoint } from "@slipway/domain/models/schema/CloudUpstream"
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import { bedrockInvoke } from "./BedrockInvoke.ts"
import { beneath, type Destination } from "./Destination.ts"
import { vertexClaude } from "./VertexClaude.ts"

/** The API that the company of the protocol has, with the protocol's own paths. */
const own: Destination = {
  lacks: [],
  url: ({ baseUrl }, path, { isBeta }) => {
    const url = beneath(baseUrl, path.slice("/v1".length))
    if (isBeta) url.searchParams.set("beta", "true")
    return url
  },
  headers: (agent) => agent,
  body: (body) => body,
  accepts: "text/event-stream",
  decoder: null
}

/** Foundry: the same, with a version in addresses of deployments. */
const foundry = ({ apiVersion }: Upstream): Destination => ({
  ...own,
  url: (upstream, path, { streaming }) => {
    const url = own.url(upstream, path, { streaming, isBeta: false })
    if (apiVersion !== undefined) url.searchParams.set("api-version", apiVersion)
    return url
  }
})

export const destinationOf = (upstream: Upstream): Destination => {
  const auth = authOf(upstream)
  if (auth === "azure") return foundry(upstream)
  if (upstream.protocol !== "anthropic-messages") return own
  if (auth === "google") return vertexClaude
  return auth === "aws" && awsEndpoint(upstream)?.service !== "bedrock-mantle" ? bedrockInvoke : own
}
