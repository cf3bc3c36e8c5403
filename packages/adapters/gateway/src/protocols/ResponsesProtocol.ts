/** OpenAI Responses. */
import { changed, countAt, isObject, objectAt, only, outputLimit, ownTools } from "./JsonFields.ts"
import { openAiError } from "./OpenAiError.ts"
import type { Json, Protocol } from "./Protocol.ts"

/**
 * Left out because they cost extra: `service_tier`, `background`, `context_management` (another pass over the input), `max_tool_calls`.
 * Left out because other sandboxes of the account could read the stored data: `previous_response_id`, `conversation`, `prompt`,
 * `metadata`, `prompt_cache_retention`. Unknown fields are left out too.
 */
const FIELDS: ReadonlySet<string> = new Set([
  "input",
  "instructions",
  "temperature",
  "top_p",
  "top_logprobs",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "reasoning",
  "text",
  "include",
  "truncation",
  "prompt_cache_key",
  "user",
  "safety_identifier"
])

const REASONING: ReadonlySet<string> = new Set(["effort", "summary", "generate_summary"])
const INCLUDED: ReadonlySet<unknown> = new Set(["reasoning.encrypted_content", "message.output_text.logprobs"])

const OWN: ReadonlySet<unknown> = new Set(["function", "custom", "local_shell", "apply_patch"])

const isOwn = (tool: Json): boolean =>
  OWN.has(tool["type"])
  || tool["type"] === "tool_search" && tool["execution"] === "client"
  || tool["type"] === "namespace" && Array.isArray(tool["tools"]) && tool["tools"].every((inner) => isObject(inner) && isOwn(inner))

/** Some items of the input contain tools. */
const item = (value: unknown): unknown =>
  isObject(value) && Object.hasOwn(value, "tools") ? { tools: [], ...ownTools(value, isOwn) } : value

export const responses: Protocol = {
  route: "/v1/responses",
  free: [],
  freeFields: new Set(),
  headers: ["openai-beta"],
  header: (value) => value,
  credentials: (key) => ({ authorization: `Bearer ${key}` }),
  prepare: (asked, { model, outputTokens }) => {
    const limit = outputLimit(asked, ["max_output_tokens"], outputTokens)
    const known = ownTools(only(asked, FIELDS), isOwn)
    const reasoning = changed(known, "reasoning", (value) => only(objectAt({ value }, "value"), REASONING))
    const included = changed(reasoning, "include", (value) => Array.isArray(value) ? value.filter((name) => INCLUDED.has(name)) : undefined)
    return {
      body: {
        ...changed(included, "input", (value) => Array.isArray(value) ? value.map(item) : value),
        model,
        max_output_tokens: limit,
        store: false,
        ...(asked["stream"] === true ? { stream: true } : {})
      },
      outputTokens: limit
    }
  },
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
