/**
 * Claude on the endpoint `bedrock-runtime` of Amazon Bedrock: `InvokeModel` and `InvokeModelWithResponseStream`
 * (docs.aws.amazon.com/bedrock, "Anthropic Claude Messages API", 2026-11).
 */
import { betasOf, claudeBody } from "./ClaudeForm.ts"
import { beneath, type Destination } from "./Destination.ts"

/** The beta features of Bedrock, of those that agents use and that cost nothing extra. */
const BETAS: ReadonlySet<string> = new Set([
  "computer-use-2025-01-24",
  "computer-use-2025-11-24",
  "context-1m-2025-08-07",
  "context-management-2025-06-27",
  "effort-2025-11-24",
  "fine-grained-tool-streaming-2025-05-14",
  "interleaved-thinking-2025-05-14",
  "tool-search-tool-2025-10-19"
])

export const bedrockInvoke: Destination = {
  // Bedrock counts the tokens of a few models only, and in a form of its own.
  lacks: ["/v1/messages/count_tokens"],
  url: ({ baseUrl, model }, _, { streaming }) =>
    beneath(baseUrl, `/model/${encodeURIComponent(model)}/${streaming ? "invoke-with-response-stream" : "invoke"}`),
  headers: () => ({}),
  body: (body, agent) => {
    const betas = betasOf(agent["anthropic-beta"], BETAS)
    const { model: _model, stream: _stream, ...rest } = claudeBody(body, betas)
    return { anthropic_version: "bedrock-2023-05-31", ...(betas.length === 0 ? {} : { anthropic_beta: betas }), ...rest }
  },
  accepts: "application/vnd.amazon.eventstream",
  decoder: "bedrock"
}
