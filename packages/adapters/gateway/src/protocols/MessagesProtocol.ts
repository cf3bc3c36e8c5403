/** Anthropic Messages. */
import { changed, countAt, isObject, objectAt, only, outputLimit, ownTools } from "./JsonFields.ts"
import type { Json, Protocol } from "./Protocol.ts"

const types: Readonly<Record<number, string>> = {
  401: "authentication_error",
  402: "billing_error",
  404: "not_found_error",
  408: "timeout_error",
  413: "request_too_large",
  429: "rate_limit_error",
  504: "timeout_error"
}

/**
 * Left out because they cost extra: `service_tier`, `speed`, `inference_geo`, `mcp_servers`, `container`. Unknown fields are left out
 * too.
 */
const FIELDS: ReadonlySet<string> = new Set([
  "messages",
  "system",
  "temperature",
  "top_p",
  "top_k",
  "stop_sequences",
  "tools",
  "tool_choice",
  "thinking",
  "output_config",
  "output_format",
  "metadata",
  "context_management",
  "cache_control"
])

const FREE_FIELDS: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "system",
  "tools",
  "tool_choice",
  "thinking",
  "output_config",
  "output_format",
  "context_management",
  "cache_control"
])

/** Anthropic's names of tools that the client runs. */
const OWN = /^(?:custom$|bash_|text_editor_|memory_)/u

/** An hour in the cache costs more than the catalogue's price, which is for five minutes. */
const usual = (cache: unknown) => changed(objectAt({ cache }, "cache"), "ttl", () => undefined)

const block = (value: unknown): unknown => isObject(value) ? changed(changed(value, "cache_control", usual), "content", blocks) : value

const blocks = (value: unknown): unknown => Array.isArray(value) ? value.map(block) : value

/** Only removals from the context: a summary would be extra work of a model. */
const clearing = (value: unknown): unknown => {
  const { edits } = objectAt({ value }, "value")
  return { edits: Array.isArray(edits) ? edits.filter((edit) => isObject(edit) && `${edit["type"]}`.startsWith("clear_")) : [] }
}

/** For a model with a smaller context, this would charge the price of a larger one. */
const LONG_CONTEXT = /^context-1m/u
const USUAL_CONTEXT = 200_000

const prepared = (asked: Json): Json =>
  ["system", "messages", "tools"].reduce(
    (body, name) => changed(body, name, blocks),
    changed(
      changed(
        ownTools(only(asked, FIELDS), ({ type }) => type === undefined || typeof type === "string" && OWN.test(type)),
        "cache_control",
        usual
      ),
      "context_management",
      clearing
    )
  )

export const messages: Protocol = {
  route: "/v1/messages",
  free: ["/v1/messages/count_tokens"],
  freeFields: FREE_FIELDS,
  headers: ["anthropic-version", "anthropic-beta"],
  header: (value, { contextTokens }) =>
    contextTokens > USUAL_CONTEXT
      ? value
      : value.split(",").map((name) => name.trim()).filter((name) => !LONG_CONTEXT.test(name)).join(","),
  credentials: (key) => ({ "x-api-key": key }),
  prepare: (asked, { model, outputTokens }) => {
    const limit = outputLimit(asked, ["max_tokens"], outputTokens)
    return {
      body: { ...prepared(asked), model, max_tokens: limit, ...(asked["stream"] === true ? { stream: true } : {}) },
      outputTokens: limit
    }
  },
  count: ({ final, tokens }, event) => {
    // A stream's first event has the input, its last events the output. An answer without streaming has both.
    const started = event["type"] === "message_start"
    const usage = objectAt(started ? objectAt(event, "message") : event, "usage")
    const cacheWrite = countAt(usage, "cache_creation_input_tokens")
    const cachedInput = countAt(usage, "cache_read_input_tokens")
    const uncached = countAt(usage, "input_tokens")
    const before = Math.max(0, tokens.input - tokens.cachedInput - tokens.cacheWrite)
    const now = { cacheWrite: cacheWrite ?? tokens.cacheWrite, cachedInput: cachedInput ?? tokens.cachedInput }
    return {
      tokens: {
        ...now,
        input: (uncached ?? before) + now.cacheWrite + now.cachedInput,
        output: countAt(usage, "output_tokens") ?? tokens.output
      },
      final: final || !started && countAt(usage, "output_tokens") !== undefined
    }
  },
  error: ({ message, status }) => ({
    type: "error",
    error: { type: types[status] ?? (status < 500 ? "invalid_request_error" : "api_error"), message }
  })
}
