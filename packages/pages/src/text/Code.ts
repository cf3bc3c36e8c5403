/** Code as HTML: its text with the colours of its language, as much of it as a page has room for. */
import type { Chunked } from "../html/CooperativeRender.ts"
import { html, type Html, type Part } from "../html/Html.ts"
import * as Colours from "./Colours.ts"
import type { Language } from "./Languages.ts"

/** Characters of one piece of code that get colours; a longer one is text alone. Markup makes it up to 15 times as long. */
export const MAX_COLOURED = 48 * 1024

export const piece = ({ colour, text }: Colours.Piece): Part => colour === null ? text : html`<span class="${colour}">${text}</span>`

/** Characters that the markup of one piece counts for, beside its text. */
const MARKUP = 16

/** A block of its own. */
export const block = function*(code: string, language: Language | null): Chunked<Html> {
  const parts: Array<Part> = []
  if (language === null || code.length > MAX_COLOURED) parts.push(code)
  else {
    for (const one of yield* Colours.read(code, language)) {
      parts.push(piece(one))
      yield MARKUP
    }
  }
  const made = html`<pre class="code"><code>${parts}</code></pre>`
  yield code.length
  return made
}
