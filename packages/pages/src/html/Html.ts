/**
 * HTML as a value that text cannot be taken for: whatever a template interpolates is escaped, unless it is HTML already.
 * What is hidden in the text of an element is shown by its name; attributes keep it, since what they hold comes back.
 */
import { visible } from "@slipway/domain/text/EscapeInvisible"

/** Markup that only the function `html` makes. */
class Html {
  readonly #text: string
  constructor(text: string) {
    this.#text = text
  }
  toString(): string {
    return this.#text
  }
  /** Length in UTF-8. */
  get bytes(): number {
    return Buffer.byteLength(this.#text)
  }
}
// The type alone: only this module makes values.
export type { Html }

/** `null` and `false` are nothing, so that a part can be left out in place. */
export type Part = Html | string | number | null | false | ReadonlyArray<Part>

const ESCAPED: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "\"": "&quot;",
  "'": "&#39;",
  // Parsers read a bare one as a line feed, and cannot be given a NUL at all (HTML, sections 13.2.3.5 and 13.2.5).
  "\r": "&#13;",
  "\0": "\ufffd"
}

// eslint-disable-next-line no-control-regex
const escaped = (text: string) => text.replaceAll(/[&<>"'\r\0]/gu, (char) => ESCAPED[char] ?? char)

const rendered = (part: Part, isAttribute: boolean): string => {
  if (part instanceof Html) return part.toString()
  if (Array.isArray(part)) return part.map((one: Part) => rendered(one, isAttribute)).join("")
  if (part === null || part === false) return ""
  const text = String(part).toWellFormed()
  return escaped(isAttribute ? text : visible(text))
}

/** By template: which of its parts are within a tag. */
const places = new WeakMap<TemplateStringsArray, ReadonlyArray<boolean>>()

const placesOf = (strings: TemplateStringsArray): ReadonlyArray<boolean> => {
  const known = places.get(strings)
  if (known !== undefined) return known
  let isTag = false
  const found = strings.map((string) => {
    const [open, close] = [string.lastIndexOf("<"), string.lastIndexOf(">")]
    return isTag = open === close ? isTag : open > close
  })
  places.set(strings, found)
  return found
}

/** Safe for element content and for quoted attribute values; nowhere else may anything be interpolated. */
export const html = (strings: TemplateStringsArray, ...parts: ReadonlyArray<Part>): Html => {
  const areTags = placesOf(strings)
  return new Html(strings.reduce((text, string, i) => text + rendered(parts[i - 1] ?? null, areTags[i - 1] ?? false) + string))
}

export const nothing: Html = html``

/** Cells of a table's head, one for each column. */
export const columnHeads = (...names: ReadonlyArray<string>): ReadonlyArray<Html> => names.map((name) => html`<th scope="col">${name}</th>`)
