/** Instants as pages show them: in UTC, and as machines read them. */
import { DateTime } from "effect"
import { html, type Html } from "./Html.ts"

export const moment = (at: DateTime.Utc): Html => {
  const iso = DateTime.formatIso(at)
  return html`<time datetime="${iso}">${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC</time>`
}
