/** Common to lists, for browsers with scripts: watching, and keyboard shortcuts. */
import { html, type Html } from "../html/Html.ts"

/** Shown by `waiting.js`. */
export const notifyButton: Html = html`
<button id="notify" class="quiet" type="button" aria-pressed="false" hidden>Notify me</button>`

/** Filled by `board.js`. */
export const watchBar: Html = html`<p class="fine watch"><span id="watching" role="status"></span>${notifyButton}</p>`

const KEYS = [
  ["j", "Next item"],
  ["k", "Previous item"],
  ["Enter", "Open"],
  ["a", "Approve the focused card, if it is fully visible"],
  ["d", "Deny the focused card, if it is fully visible"],
  ["/", "Search"],
  ["?", "This help"]
] as const

const listed: ReadonlyArray<Html> = KEYS.map(([key, what]) =>
  html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>
`
)

/** Opened by `keys.js`. */
export const keysHelp: Html = html`<dialog id="keys-help" aria-labelledby="keys-title">
<h2 id="keys-title">Keys</h2>
<dl class="facts">${listed}</dl>
<div class="choice"><input type="checkbox" id="keys-on" checked><label for="keys-on">Enable shortcuts</label></div>
<form method="dialog" class="actions"><button>Close</button></form>
</dialog>`
