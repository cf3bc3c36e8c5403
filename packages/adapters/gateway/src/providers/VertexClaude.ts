/**
 * Claude on Vertex AI: `rawPredict` and `streamRawPredict` of the publisher `anthropic` (docs.cloud.google.com/vertex-ai, "Claude models",
 * 2026-11). The address of the upstream ends with the location, `…/v1/projects/PROJECT/locations/LOCATION`.
 */
import { betasOf, claudeBody } from "./ClaudeForm.ts"
import { beneath, type Destination } from "./Destination.ts"

/** The beta features of Vertex AI, of those that agents use and that cost nothing extra. */
const BETAS: ReadonlySet<string> = new Set([
  "computer-use-2025-01-24",
  "computer-use-2025-11-24",
  "context-1m-2025-08-07",
  "context-management-2025-06-27",
  "interleaved-thinking-2025-05-14",
  "tool-search-tool-2025-10-19"
])

const COUNT = "/v1/messages/count_tokens"

export const vertexClaude: Destination = {
  lacks: [],
  url: ({ baseUrl, model }, path, { streaming }) => {
    // A version of a model is behind an @, which Google's own clients leave as it is.
    const named = path === COUNT ? "count-tokens" : encodeURIComponent(model).replaceAll("%40", "@")
    return beneath(baseUrl, `/publishers/anthropic/models/${named}:${streaming ? "streamRawPredict" : "rawPredict"}`)
  },
  headers: (agent) => {
    const betas = betasOf(agent["anthropic-beta"], BETAS)
    return betas.length === 0 ? {} : { "anthropic-beta": betas.join(",") }
  },
  body: (body, agent, isFree) => {
    const { model, ...rest } = claudeBody(body, betasOf(agent["anthropic-beta"], BETAS))
    return { anthropic_version: "vertex-2023-10-16", ...(isFree ? { model } : {}), ...rest }
  },
  accepts: "text/event-stream",
  decoder: null
}
