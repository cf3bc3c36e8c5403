/** Anthropic Messages. */
import { clamp, countAt, objectAt, withoutHostedTools, without } from "./JsonFields.ts"
import type { Protocol } from "./Protocol.ts"

const types: Readonly<Record<number, string>> = {
  401: "authentication_error",
  402: "billing_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  504: "timeout_error"
}

export const messages: Protocol = {
  route: "/v1/messages",
  free: ["/v1/messages/count_tokens"],
  headers: ["anthropic-version", "anthropic-beta"],
  credentials: (key) => ({ "x-api-key": key }),
  prepare: (body, { model, outputTokens }) => ({
    ...clamp(withoutHostedTools(without(body, ["service_tier", "mcp_servers", "container"])), ["max_tokens"], outputTokens),
    model
  }),
  outputLimit: (body) => countAt(body, "max_tokens"),
  count: ({ final, tokens }, event) => {
    // The first event of a stream has the input, its last ones the output; a whole answer has both.
    const started = event["type"] === "message_start"
    const usage = objectAt(started ? objectAt(event, "message") : event, "usage")
    const cacheWrite = countAt(usage, "cache_creation_input_tokens")
    const cachedInput = countAt(usage, "cache_read_input_tokens")
    const uncached = countAt(usage, "input_tokens")
    const before = Math.max(0, tokens.input - tokens.cachedInput - tokens.cacheWrite)
    const now = { cacheWrite: cacheWrite ?? tokens.cacheWrite, cachedInput: cachedInput ?? tokens.cachedInput }
    return {
      tokens: { ...now, input: (uncached ?? before) + now.cacheWrite + now.cachedInput, output: countAt(usage, "output_tokens") ?? tokens.output },
      final: final || !started && countAt(usage, "output_tokens") !== undefined
    }
  },
  error: ({ message, status }) => ({
    type: "error",
    error: { type: types[status] ?? (status < 500 ? "invalid_request_error" : "api_error"), message }
  })
}
