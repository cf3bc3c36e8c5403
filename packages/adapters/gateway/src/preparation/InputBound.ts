/**
 * The most tokens of a request's input. Text has at most as many tokens as bytes, for any tokenizer. The size of other parts is
 * unknown, for example files that the provider fetches, stores or unpacks. So only known kinds of text and inline images are measured.
 */
import { isObject } from "../protocols/JsonFields.ts"

export interface Input {
  readonly tokens: number
  /** Whether the bytes of the request limit its tokens. */
  readonly measured: boolean
}

/** Types of objects that are text or its metadata. */
const TEXT: ReadonlySet<unknown> = new Set([
  undefined,
  "text",
  "input_text",
  "output_text",
  "refusal",
  "reasoning",
  "summary_text",
  "reasoning_text",
  "thinking",
  "redacted_thinking",
  "message",
  "function",
  "custom",
  "function_call",
  "function_call_output",
  "custom_tool_call",
  "custom_tool_call_output",
  "local_shell_call",
  "local_shell_call_output",
  "apply_patch_call",
  "apply_patch_call_output",
  "tool_search_call",
  "tool_search_output",
  "additional_tools",
  "tool_use",
  "tool_result",
  "tool_reference"
])

/** Names of fields in which providers expect media, with or without a type. */
export const MEDIA = /url|uri|file|image|audio|video|media|document|source|blob/iu

/** Arguments of tool calls, descriptions of tools and remarks, which are read as text. */
export const TAKEN_AS_TEXT: ReadonlySet<string> = new Set([
  "input",
  "arguments",
  "action",
  "operation",
  "tools",
  "function",
  "custom",
  "cache_control",
  "caller",
  "annotations",
  "citations"
])

/** An exact form: other spellings of an address may mean a real address to some parser. */
const INLINE_IMAGE = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]*={0,2}$/u
const IMAGE_TYPES: ReadonlySet<unknown> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"])

/** The highest price of an image, at gpt-4o-mini: 2,833 and 5,667 for each of at most 8 tiles (OpenAI, 2026-11). */
const IMAGE_TOKENS = 50_000

/** Tokens that providers add to a prompt: up to 700 for tools (Anthropic, 2026-11), a few for each message. */
const ADDED_TOKENS = 1000

/** The length of an inline image; `undefined`: not an inline image. */
const inlineImage = (part: Readonly<Record<string, unknown>>): number | undefined => {
  const { cache_control: _, detail: _detail, image_url: image, source, type, ...more } = part
  if (Object.keys(more).length > 0) return undefined
  if (type === "image_url" || type === "input_image") {
    const address = isObject(image) && Object.keys(image).every((name) => name === "url" || name === "detail") ? image["url"] : image
    return source === undefined && typeof address === "string" && INLINE_IMAGE.test(address) ? address.length : undefined
  }
  if (type === "image" && image === undefined && isObject(source)) {
    const { data, media_type: media, type: kind, ...others } = source
    return kind === "base64" && IMAGE_TYPES.has(media) && typeof data === "string" && Object.keys(others).length === 0
      ? data.length
      : undefined
  }
  return undefined
}

/** `contents`: the parts of the request with text. `bytes`: the size of the whole request. */
export const inputBound = (contents: ReadonlyArray<unknown>, bytes: number, contextTokens: number): Input => {
  let images = 0
  let imageBytes = 0
  // No recursion: the depth is the agent's choice.
  const left = [...contents]
  while (left.length > 0) {
    const value = left.pop()
    if (Array.isArray(value)) { for (const part of value) left.push(part) }
    if (!isObject(value)) continue
    const image = inlineImage(value)
    if (image !== undefined) {
      images++
      imageBytes += image
      continue
    }
    if (!TEXT.has(value["type"])) return { tokens: contextTokens, measured: false }
    for (const [name, inner] of Object.entries(value)) {
      if (TAKEN_AS_TEXT.has(name)) continue
      if (MEDIA.test(name) && (inner ?? null) !== null) return { tokens: contextTokens, measured: false }
      if (typeof inner === "object") left.push(inner)
    }
  }
  return { tokens: Math.min(bytes - imageBytes + images * IMAGE_TOKENS + ADDED_TOKENS, contextTokens), measured: images === 0 }
}
