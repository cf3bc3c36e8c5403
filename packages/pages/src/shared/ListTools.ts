/** Common to lists, for browsers with scripts: how they are watched. */
import { html, type Html } from "../html/Html.ts"

/** Shown by `waiting.js`. */
export const notifyButton: Html = html`
<button id="notify" class="quiet" type="button" aria-pressed="false" hidden>Notify me</button>`

/** Filled by `board.js`. */
export const watchBar: Html = html`<p class="fine watch"><span id="watching" role="status"></span>${notifyButton}</p>`
