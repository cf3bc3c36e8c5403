/**
 * What a provider would fetch for an agent: images, documents and other files by their address. A box without a network could send
 * data out that way. A text may mention any address: nobody fetches it.
 */
import { isObject } from "../protocols/JsonFields.ts"
import { MEDIA, TAKEN_AS_TEXT } from "./InputBound.ts"

/** Fields that are nothing but an address. Providers take data in them too, as a `data:` URL. */
const ADDRESS = /ur[il]s?$/iu

const DATA = /^data:/iu

/** Characters that parsers of addresses skip, wherever they stand. */
const SKIPPED = /[\0-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060\ufeff]/gu

/** Characters of a text that are looked at. The scheme of an address is in front of everything else. */
const LOOKED_AT = 256

const beginsWithScheme = (text: string): boolean => {
  const start = text.trimStart().slice(0, LOOKED_AT).replace(SKIPPED, "")
  return /^[a-z][a-z\d+.-]*:/iu.test(start) && !DATA.test(start)
}

/** Work that the provider began in an earlier answer, and that it would go on with: it has a network. */
const OF_PROVIDER: ReadonlySet<unknown> = new Set(["server_tool_use", "mcp_tool_use", "mcp_approval_response"])

/** Fields of parts that are text for the model, whatever the part is. */
const TEXTS: ReadonlySet<string> = new Set(["text", "content", "title", "context", "filename"])

/** Whether the field's text is text to the model too: of a document that is written out, and the origin that search results name. */
const isText = (part: Readonly<Record<string, unknown>>, name: string): boolean =>
  TEXTS.has(name) || name === "data" && part["type"] === "text" || name === "source" && part["type"] === "search_result"

interface Left {
  readonly value: unknown
  readonly name: string
  /** Within something that is not text. */
  readonly inMedia: boolean
}

/** The name of the first field that would make a provider fetch something; `null`: there is none. `contents`: what holds the text. */
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
        // Parts of a document are parts like any other.
        left.push({ value: inner, name: field, inMedia: field !== "content" && (isMedia || MEDIA.test(field)) })
      }
    }
  }
  return null
}
