/** HTML as a value that text cannot be taken for: whatever a template interpolates is escaped, unless it is HTML already. */

/** Markup that only `html` makes. */
class Markup {
  readonly #text: string
  constructor(text: string) {
    this.#text = text
  }
  toString(): string {
    return this.#text
  }
}
export type Html = Markup

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

const rendered = (part: Part): string =>
  part instanceof Markup
    ? part.toString()
    : Array.isArray(part)
    ? part.map(rendered).join("")
    : part === null || part === false
    ? ""
    // eslint-disable-next-line no-control-regex
    : String(part).toWellFormed().replaceAll(/[&<>"'\r\0]/gu, (char) => ESCAPED[char] ?? char)

/** Safe for element content and for quoted attribute values; nowhere else may anything be interpolated. */
export const html = (strings: TemplateStringsArray, ...parts: ReadonlyArray<Part>): Html =>
  new Markup(strings.reduce((text, string, i) => text + rendered(parts[i - 1] ?? null) + string))

export const nothing: Html = html``
