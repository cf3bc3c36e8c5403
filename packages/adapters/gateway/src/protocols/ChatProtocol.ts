/** OpenAI chat completions and their variants. */
import { changed, countAt, objectAt, only, outputLimit, ownTools } from "./JsonFields.ts"
import { openAiError } from "./OpenAiError.ts"
import type { Protocol } from "./Protocol.ts"

/**
 * Left out because they cost extra: `n`, `best_of`, `service_tier`, `prediction` (its unused part is billed), `modalities` and `audio`,
 * `web_search_options`, `search_parameters`, `plugins`, `models` and `route` (another model). Left out because the provider stores
 * data: `store`, `metadata`, `deferred`, `prompt_cache_retention`. Unknown fields are left out too.
 */
const FIELDS: ReadonlySet<string> = new Set([
  "messages",
  "temperature",
  "top_p",
  "top_k",
  "min_p",
  "frequency_penalty",
  "presence_penalty",
  "repetition_penalty",
  "seed",
  "stop",
  "logit_bias",
  "logprobs",
  "top_logprobs",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "functions",
  "function_call",
  "response_format",
  "reasoning_effort",
  "reasoning",
  "thinking",
  "enable_thinking",
  "chat_template_kwargs",
  "verbosity",
  "user",
  "safety_identifier",
  "prompt_cache_key"
])

/** The first is OpenAI's newer name. Some providers do not know it, and OpenAI's newer models refuse the older name. */
const LIMITS = ["max_completion_tokens", "max_tokens"] as const

const isOpenAi = (baseUrl: string) => /^https:\/\/(?:api\.openai\.com|[\w-]+\.openai\.azure\.com)\//iu.test(`${baseUrl}/`)

export const chat: Protocol = {
  route: "/v1/chat/completions",
  free: [],
  freeFields: new Set(),
  headers: [],
  header: (value) => value,
  credentials: (key) => ({ authorization: `Bearer ${key}` }),
  prepare: (asked, { baseUrl, model, outputTokens }) => {
    const [newer, older] = LIMITS
    // Exactly one of them, because a provider may use either if both are sent.
    const name = Object.hasOwn(asked, newer) || !Object.hasOwn(asked, older) && isOpenAi(baseUrl) ? newer : older
    const own = ownTools(only(asked, FIELDS), ({ type }) => type === "function" || type === "custom")
    return {
      body: {
        ...changed(
          own,
          "reasoning",
          (value) => only(objectAt({ value }, "value"), new Set(["effort", "max_tokens", "enabled", "exclude"]))
        ),
        model,
        [name]: outputLimit(asked, LIMITS, outputTokens),
        ...(asked["stream"] === true ? { stream: true, stream_options: { include_usage: true } } : {})
      },
      // Providers do not document whether they support the field and whether it counts reasoning.
      outputTokens
    }
  },
  count: (counted, event) => {
    const usage = objectAt(event, "usage")
    const input = countAt(usage, "prompt_tokens")
    if (input === undefined) return counted
    // Some providers count reasoning only in the total, not in the completion.
    const output = Math.max(countAt(usage, "completion_tokens") ?? 0, (countAt(usage, "total_tokens") ?? 0) - input)
    const details = objectAt(usage, "prompt_tokens_details")
    const cachedInput = countAt(details, "cached_tokens") ?? 0
    return { tokens: { input, cachedInput, cacheWrite: countAt(details, "cache_write_tokens") ?? 0, output }, final: true }
  },
  error: openAiError
}
