/**
 * Finds images, documents and other files that a provider would fetch by address. A box without a network could send data out that way.
 * Addresses within texts are allowed: providers do not fetch them.
 */
import { isObject } from "../protocols/JsonFields.ts"
import { MEDIA, TAKEN_AS_TEXT } from "./InputBound.ts"

/** Fields that hold only an address. Providers also accept data in them, as a `data:` URL. */
const ADDRESS = /ur[il]s?$/iu

const DATA = /^data:/iu

/** Characters that URL parsers skip at any position. */
const SKIPPED = /[\0-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060\ufeff]/gu

/** Characters of a text that are examined. The scheme of an address comes first. */
const LOOKED_AT = 256

const beginsWithScheme = (text: string): boolean => {
  const start = text.trimStart().slice(0, LOOKED_AT).replace(SKIPPED, "")
  return /^[a-z][a-z\d+.-]*:/iu.test(start) && !DATA.test(start)
}

/** Work of the provider from an earlier answer that it would continue with its own network. */
const OF_PROVIDER: ReadonlySet<unknown> = new Set(["server_tool_use", "mcp_tool_use", "mcp_approval_response"])

/** Fields of parts that are always text for the model. */
const TEXTS: ReadonlySet<string> = new Set(["text", "content", "title", "context", "filename"])

/** Whether the field's text is text for the model too: a document's full text, and the source name of search results. */
const isText = (part: Readonly<Record<string, unknown>>, name: string): boolean =>
  TEXTS.has(name) || name === "data" && part["type"] === "text" || name === "source" && part["type"] === "search_result"

interface Left {
  readonly value: unknown
  readonly name: string
  /** Within an object that is not text. */
  readonly inMedia: boolean
}

/** The name of the first field that a provider would fetch; `null`: none. `contents`: the parts of the request with text. */
export const find = (contents: ReadonlyArray<unknown>): string | null => {
  // No recursion: the depth is the agent's choice.
  const left: Array<Left> = contents.map((value) => ({ value, name: "", inMedia: false }))
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const { inMedia, name, value } = next
    if (typeof value === "string") {
      if (ADDRESS.test(name) ? !DATA.test(value) : inMedia && beginsWithScheme(value)) return name
    } else if (Array.isArray(value)) {
      for (const one of value) left.push({ value: one, name, inMedia })
    } else if (isObject(value)) {
      const { type } = value
      if (OF_PROVIDER.has(type)) return "type"
      const isMedia = inMedia || typeof type === "string" && MEDIA.test(type)
      for (const [field, inner] of Object.entries(value)) {
        if (TAKEN_AS_TEXT.has(field) || typeof inner === "string" && isText(value, field)) continue
        // Parts of a document are like other parts.
        left.push({ value: inner, name: field, inMedia: field !== "content" && (isMedia || MEDIA.test(field)) })
      }
    }
  }
  return null
}
