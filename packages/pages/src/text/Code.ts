/** Code as HTML: its text with the colours of its language. */
import { each } from "../html/Fit.ts"
import { html, type Html, type Part } from "../html/Html.ts"
import * as Colours from "./Colours.ts"
import type { Language } from "./Languages.ts"

/** Characters of code that get colours; longer code is text alone. Markup makes it up to 15 times as long. */
export const MAX_COLOURED = 48 * 1024

export const piece = ({ colour, text }: Colours.Piece): Part => colour === null ? text : html`<span class="${colour}">${text}</span>`

/** A block of its own. */
export const block = (code: string, language: Language | null): Html => {
  const content = language === null || code.length > MAX_COLOURED ? code : each(Colours.read(code, language), piece)
  return html`<pre class="code"><code>${content}</code></pre>`
}
