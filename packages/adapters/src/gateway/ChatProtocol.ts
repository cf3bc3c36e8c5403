/** OpenAI chat completions, and what others have made of it. */
import { clamp, countAt, objectAt, withoutHostedTools, without } from "./JsonFields.ts"
import { openAiError } from "./OpenAiError.ts"
import type { Protocol } from "./Protocol.ts"

const LIMITS = ["max_completion_tokens", "max_tokens"]

export const chat: Protocol = {
  route: "/v1/chat/completions",
  free: [],
  headers: [],
  credentials: (key) => ({ authorization: `Bearer ${key}` }),
  prepare: (body, { model, outputTokens }) => ({
    ...clamp(withoutHostedTools(without(body, ["n", "service_tier", "store", "metadata", "web_search_options", "search_parameters"])), LIMITS, outputTokens),
    model,
    ...(body["stream"] === true ? { stream_options: { ...objectAt(body, "stream_options"), include_usage: true } } : {})
  }),
  outputLimit: (body) => countAt(body, "max_completion_tokens") ?? countAt(body, "max_tokens"),
  count: (counted, event) => {
    const usage = objectAt(event, "usage")
    const input = countAt(usage, "prompt_tokens")
    if (input === undefined) return counted
    // Some leave reasoning out of the completion, and count it in the total alone.
    const output = Math.max(countAt(usage, "completion_tokens") ?? 0, (countAt(usage, "total_tokens") ?? 0) - input)
    const details = objectAt(usage, "prompt_tokens_details")
    const cachedInput = countAt(details, "cached_tokens") ?? 0
    return { tokens: { input, cachedInput, cacheWrite: countAt(details, "cache_write_tokens") ?? 0, output }, final: true }
  },
  error: openAiError
}
