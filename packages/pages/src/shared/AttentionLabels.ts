/** The state of a sandbox and its reason, as pages show them. */
import { pullsOf, type Queue } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { type AttentionState, attentionStateOf, stateWords } from "@slipway/domain/sandbox/rules/AttentionState"
import { questionsOf } from "@slipway/domain/sandbox/rules/Question"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { pullStateOf } from "@slipway/domain/source/rules/PullState"
import { DateTime } from "effect"
import { html, type Html } from "../html/Html.ts"
import { linkTo } from "./PullLabels.ts"
import { labels } from "./SandboxLabels.ts"

const tone: Readonly<Record<AttentionState, string>> = {
  starting: "wait",
  working: "run",
  asking: "wait",
  ready: "good",
  failed: "bad",
  idle: "",
  ended: ""
}

/** The states in the order of their groups: what needs a person first. */
export const STATES = ["asking", "failed", "ready", "working", "starting", "idle", "ended"] as const satisfies ReadonlyArray<AttentionState>

/** The state of a sandbox, in its word and colour. */
export const stateBadge = (sandbox: Sandbox): Html => {
  const state = attentionStateOf(sandbox)
  return html`<span class="state ${tone[state]}">${stateWords[state]}</span>`
}

/** 1st, 2nd, 3rd, 4th, 11th. */
const ordinal = (n: number): string => {
  const tens = n % 100
  const suffix = tens >= 11 && tens <= 13 ? "th" : ({ 1: "st", 2: "nd", 3: "rd" } as const)[n % 10] ?? "th"
  return `${n}${suffix}`
}

/** Slots in use: `8 of 8 slots busy`. */
export const atWorkLabel = ({ atWork, slots }: Queue): string =>
  slots === 0 ? `${atWork} busy, no worker connected` : `${atWork} of ${slots} slots busy`

/** The place in the queue; empty if it is unknown. */
export const placeInLine = (sandbox: Pick<Sandbox, "id">, queue: Queue): string => {
  const place = queue.places.get(sandbox.id)
  return place === undefined ? "" : `${ordinal(place)}, ${atWorkLabel(queue)}`
}

/** Characters of a question in a list. */
const QUESTION_CHARACTERS = 120

const beginningOf = (text: string): string =>
  text.length <= QUESTION_CHARACTERS ? text : `${text.slice(0, QUESTION_CHARACTERS).toWellFormed()}…`

/** The reason for its state in a few words; may be empty. */
export const because = (sandbox: Sandbox, queue: Queue): string => {
  const { approvals, error, reason, status } = sandbox
  switch (attentionStateOf(sandbox)) {
    case "asking":
      if (approvals.length === 0) return `Asks: ${beginningOf(questionsOf(sandbox)[0]?.questions[0]?.text ?? "")}`
      return approvals.length === 1 ? `Asks for approval: ${approvals[0]?.tool ?? ""}` : `${approvals.length} approvals waiting`
    case "failed":
      return status === "failed" ? error ?? (reason === null ? "" : labels.reason[reason]) : "The last turn failed."
    case "starting":
      return placeInLine(sandbox, queue)
    case "ended":
      return reason === null ? "" : labels.reason[reason]
    case "working":
    case "ready":
    case "idle":
      return ""
  }
}

/** Its pull requests, with links: `#12 draft`. */
export const pullLinks = (sandbox: Sandbox): ReadonlyArray<Html> =>
  pullsOf(sandbox, "any", null).map((publication) => {
    const name = `${sandbox.repos.length > 1 ? publication.repo : ""}#${publication.number ?? ""}`
    return html`<span class="pull-link">${linkTo(publication.url, name)} ${pullStateOf(publication)}</span> `
  })

/** The newest time in the sandbox's row. */
export const lastActiveAt = ({ createdAt, idleSince, statusAt, turn }: Sandbox): DateTime.Utc =>
  [idleSince, statusAt, turn?.startedAt ?? null].reduce<DateTime.Utc>(
    (latest, at) => at === null ? latest : DateTime.max(latest, at),
    createdAt
  )
