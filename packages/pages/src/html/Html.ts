/**
 * HTML as a value, so that text cannot be taken for it: a template escapes every interpolated text. In the text of an element a hidden
 * character is shown by its name, and in the attributes that are read to people. Others keep it, because forms send their values back.
 *
 * A page is a tree of such values. What takes long to make, or has to fit into a number of bytes, is a {@link Later}: it is made when
 * the page is written (`Render.ts`), with pauses in which other requests run.
 */
import { visible } from "@slipway/domain/text/EscapeInvisible"

/** Work that can pause at each `yield`. */
export type Steps<A> = Generator<void, A, void>

/** A part that is made when the page is written. `Fit.ts` has its kinds. */
export class Later {
  readonly make: () => Steps<Part>
  constructor(make: () => Steps<Part>) {
    this.make = make
  }
}

/** Markup that only this module makes. */
class Html {
  /** Its text; `null`: it has parts that are made later. */
  readonly text: string | null
  readonly chunks: ReadonlyArray<string | Later>
  constructor(text: string | null, chunks: ReadonlyArray<string | Later>) {
    this.text = text
    this.chunks = chunks
  }
  /** Without a pause. Pages are written by `Render.text`. */
  toString(): string {
    return this.text ?? atOnce(textOf(this))
  }
}
// The type alone: only this module makes values.
export type { Html }

/** `null` and `false` are empty, so that a part can be left out in place. */
export type Part = Html | Later | string | number | null | false | ReadonlyArray<Part>

const ESCAPED: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "\"": "&quot;",
  "'": "&#39;",
  // Parsers read a bare carriage return as a line feed, and accept no NUL (HTML, sections 13.2.3.5 and 13.2.5).
  "\r": "&#13;",
  "\0": "\ufffd"
}

// eslint-disable-next-line no-control-regex
const escaped = (text: string) => text.replaceAll(/[&<>"'\r\0]/gu, (char) => ESCAPED[char] ?? char)

/** The part as markup; `null`: some of it is made later. */
const markupOf = (part: Part, isKept: boolean): string | null => {
  if (part === null || part === false) return ""
  if (part instanceof Html) return part.text
  if (part instanceof Later) return null
  if (!Array.isArray(part)) {
    const text = String(part).toWellFormed()
    return escaped(isKept ? text : visible(text))
  }
  let markup = ""
  for (const one of part as ReadonlyArray<Part>) {
    const text = markupOf(one, isKept)
    if (text === null) return null
    markup += text
  }
  return markup
}

/** Appends a part of which some is made later. */
const append = (chunks: Array<string | Later>, part: Part, isKept: boolean): void => {
  if (part instanceof Later) chunks.push(part)
  else if (part instanceof Html) { for (const chunk of part.chunks) chunks.push(chunk) }
  else if (Array.isArray(part)) {
    for (const one of part as ReadonlyArray<Part>) append(chunks, one, isKept)
  } else chunks.push(markupOf(part, isKept) ?? "")
}

/** Attributes whose text people read or hear. */
const TOLD = /\s(?:title|alt|aria-label)="[^"]*$/u

/** Which parts of a template are in attributes that keep a text as it is. */
const places = new WeakMap<TemplateStringsArray, ReadonlyArray<boolean>>()

const placesOf = (strings: TemplateStringsArray): ReadonlyArray<boolean> => {
  const known = places.get(strings)
  if (known !== undefined) return known
  let isTag = false
  let isTold = false
  const found = strings.map((string) => {
    const [open, close] = [string.lastIndexOf("<"), string.lastIndexOf(">")]
    isTag = open === close ? isTag : open > close
    if (string.includes("\"")) isTold = TOLD.test(string)
    return isTag && !isTold
  })
  places.set(strings, found)
  return found
}

/** Interpolation is safe in the content of an element and in a quoted attribute value, and nowhere else. */
export const html = (strings: TemplateStringsArray, ...parts: ReadonlyArray<Part>): Html => {
  const areKept = placesOf(strings)
  const chunks: Array<string | Later> = []
  let text = strings[0] ?? ""
  for (let i = 0; i < parts.length; i++) {
    const [part = null, isKept = false] = [parts[i], areKept[i]]
    const markup = markupOf(part, isKept)
    if (markup === null) {
      chunks.push(text)
      append(chunks, part, isKept)
      text = ""
    } else text += markup
    text += strings[i + 1] ?? ""
  }
  chunks.push(text)
  return new Html(chunks.length === 1 ? text : null, chunks)
}

/** A part of its own. */
export const asHtml = (part: Part): Html => part instanceof Html ? part : html`${part}`

const textOf = function*({ chunks }: Html): Steps<string> {
  let text = ""
  for (const chunk of chunks) {
    if (typeof chunk === "string") text += chunk
    else {
      const made = asHtml(yield* chunk.make())
      text += made.text ?? (yield* textOf(made))
    }
  }
  return text
}

/** Makes everything that is to be made later. */
export const written = function*(part: Part): Steps<Html> {
  const made = asHtml(part)
  if (made.text !== null) return made
  const text = yield* textOf(made)
  return new Html(text, [text])
}

/** Does the work without a pause. */
export const atOnce = <A>(steps: Steps<A>): A => {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}

/** The head of a table: a cell for each column. */
export const columnHeads = (...names: ReadonlyArray<string>): ReadonlyArray<Html> => names.map((name) => html`<th scope="col">${name}</th>`)
