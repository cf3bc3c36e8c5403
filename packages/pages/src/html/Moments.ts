/** Instants as pages show them, in UTC and as machines read them, and lengths of time. */
import { DateTime } from "effect"
import { html, type Html } from "./Html.ts"

export const moment = (at: DateTime.Utc): Html => shown(at, "2026-11-22T04:15".length)

/** To the second. */
export const exactMoment = (at: DateTime.Utc): Html => shown(at, "2026-11-22T04:15:00".length)

const shown = (at: DateTime.Utc, length: number): Html => {
  const iso = DateTime.formatIso(at)
  return html`<time datetime="${iso}">${iso.slice(0, length).replace("T", " ")} UTC</time>`
}

/** `1 h 2 min`, `3 min 4 s`, `5.6 s`. */
export const duration = (millis: number): string => {
  if (millis < 10_000) return `${(millis / 1000).toFixed(1)} s`
  const seconds = Math.round(millis / 1000)
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
  if (hours > 0) return `${hours} h ${minutes} min`
  return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`
}
