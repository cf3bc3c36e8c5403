/** A secret that is shown once. `page.js` lets it be copied, and takes it away with the page. */
import { Redacted } from "effect"
import { html, type Html } from "../html/Html.ts"

/** `then`: the path that the page leads on to, and that loading it again leads to. `more`: beneath the secret. */
export const shownOnce = (
  { label, more, secret, then }: { readonly label: string; readonly more: Html; readonly secret: Redacted.Redacted; readonly then: string }
): Html =>
  html`<div id="shown-once" class="panel" data-then="${then}">
<p class="warning">Copy it now to where you keep secrets. Slipway never shows it again.</p>
<label for="secret">${label}</label>
<div class="secret">
<input id="secret" readonly autocomplete="off" spellcheck="false" value="${Redacted.value(secret)}">
<button type="button" id="copy" hidden>Copy</button>
<span id="copied" role="status"></span>
</div>
${more}
</div>
<p><a class="button" href="${then}">Done</a></p>`
