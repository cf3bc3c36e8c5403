/** OpenAI Responses. */
import { clamp, countAt, isObject, objectAt, withoutHostedTools, without } from "./JsonFields.ts"
import { openAiError } from "./OpenAiError.ts"
import type { Protocol } from "./Protocol.ts"

const LIMITS = ["max_output_tokens"]

export const responses: Protocol = {
  route: "/v1/responses",
  free: [],
  headers: ["openai-beta"],
  credentials: (key) => ({ authorization: `Bearer ${key}` }),
  prepare: (body, { model, outputTokens }) => ({
    // What the provider keeps for the account could be read by every sandbox that uses it.
    ...clamp(
      withoutHostedTools(without(body, ["background", "service_tier", "previous_response_id", "conversation", "metadata", "prompt", "search_parameters"])),
      LIMITS,
      outputTokens
    ),
    model,
    store: false
  }),
  outputLimit: (body) => countAt(body, "max_output_tokens"),
  count: (counted, event) => {
    const usage = objectAt(isObject(event["response"]) ? event["response"] : event, "usage")
    const input = countAt(usage, "input_tokens")
    if (input === undefined) return counted
    const details = objectAt(usage, "input_tokens_details")
    const cachedInput = countAt(details, "cached_tokens") ?? 0
    const cacheWrite = countAt(details, "cache_write_tokens") ?? 0
    return { tokens: { input, cachedInput, cacheWrite, output: countAt(usage, "output_tokens") ?? 0 }, final: true }
  },
  error: openAiError
}
