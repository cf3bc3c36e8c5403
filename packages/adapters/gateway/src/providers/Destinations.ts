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

export const destinationOf = (upstream: Upstream): Destination => {
  if (upstream.protocol !== "anthropic-messages") return own
  const auth = authOf(upstream)
  if (auth === "google") return vertexClaude
  return auth === "aws" && awsEndpoint(upstream)?.service !== "bedrock-mantle" ? bedrockInvoke : own
}
