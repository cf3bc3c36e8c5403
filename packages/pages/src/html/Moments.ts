/** Instants as pages show them: in UTC, and as machines read them. */
import { DateTime } from "effect"
import { html, type Html } from "./Html.ts"

export const moment = (at: DateTime.Utc): Html => shown(at, "2026-11-22T04:15".length)

/** To the second. */
export const exactMoment = (at: DateTime.Utc): Html => shown(at, "2026-11-22T04:15:00".length)

const shown = (at: DateTime.Utc, length: number): Html => {
  const iso = DateTime.formatIso(at)
  return html`<time datetime="${iso}">${iso.slice(0, length).replace("T", " ")} UTC</time>`
}
