/** Labels of a pull request on pages: its state, its link, the result of its checks, and how many lines it changes. */
import { pullStateOf } from "@slipway/domain/source/rules/PullState"
import type { ChangeCounts } from "@slipway/domain/source/schema/ChangeCounts"
import type { Checks, PullState } from "@slipway/domain/source/schema/PullRequest"
import { Schema } from "effect"
import { html, type Html } from "../html/Html.ts"

const BADGES: Readonly<Record<PullState, Html>> = {
  merged: html`<span class="state good">Merged</span>`,
  closed: html`<span class="state bad">Closed</span>`,
  draft: html`<span class="state wait">Draft</span>`,
  open: html`<span class="state good">Open</span>`
}

export const pullBadge = (pull: Parameters<typeof pullStateOf>[0]): Html => BADGES[pullStateOf(pull)]

/** The text of the button that publishes changes. `number`: of the pull request; `null`: none was opened. */
export const publishLabel = (number: number | null): string => number === null ? "Publish draft PR" : "Update pull request"

/** The result of a pull request's checks, in one word. */
export const ChecksState = Schema.Literals(["passing", "failing", "running", "none"])
export type ChecksState = typeof ChecksState.Type

const STATES: Readonly<Record<Checks["state"], ChecksState | null>> = {
  success: "passing",
  failure: "failing",
  pending: "running",
  idle: "none",
  error: null
}

/** `null`: they are not known. */
export const checksStateOf = ({ state }: Checks): ChecksState | null => STATES[state]

const CHECKS_BADGES: Readonly<Record<ChecksState, Html>> = {
  passing: html`<span class="state good">Passing</span>`,
  failing: html`<span class="state bad">Failing</span>`,
  running: html`<span class="state wait">Running</span>`,
  none: html`<span class="fine">None</span>`
}

/** `null` for no or unknown checks, which the label beside it says. */
export const checksBadge = (checks: Checks): Html | null => {
  const state = checksStateOf(checks)
  return state === null || state === "none" ? null : CHECKS_BADGES[state]
}

/** Alone in a column. */
export const checksCell = (checks: Checks): Html => {
  const state = checksStateOf(checks)
  return state === null ? html`<span class="fine">${checks.label}</span>` : CHECKS_BADGES[state]
}

/** Addresses come from the source host: only those of the web become links. */
export const linkTo = (url: string | undefined, content: Html | string): Html =>
  url !== undefined && /^https?:\/\//iu.test(url) ? html`<a href="${url}" rel="noreferrer">${content}</a>` : html`${content}`

/** The sum of changed lines; `null` if it is unknown. */
export const linesOf = (changes: ReadonlyArray<ChangeCounts> | undefined): Html | null => {
  if (changes === undefined || changes.length === 0) return null
  const sum = (of: "additions" | "deletions") => changes.reduce((total, one) => total + one[of], 0)
  return html`<span class="added-count">+${sum("additions")} <span class="unseen">lines added</span></span>
<span class="removed-count">−${sum("deletions")} <span class="unseen">lines removed</span></span>`
}
