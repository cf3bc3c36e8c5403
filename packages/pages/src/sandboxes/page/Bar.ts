/** The bar above the page of a sandbox: its state, the one thing to do next, and a menu with the rest. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { attentionStateOf } from "@slipway/domain/sandbox/rules/AttentionState"
import { hasTrees, isSettled, publicationOf, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { isActive } from "@slipway/domain/sandbox/rules/Turn"
import { isUnderWay } from "@slipway/domain/source/rules/PullState"
import { DateTime } from "effect"
import { html, type Html } from "../../html/Html.ts"
import { moment } from "../../html/Moments.ts"
import { stateBadge } from "../../shared/AttentionLabels.ts"
import { linkTo } from "../../shared/PullLabels.ts"
import { dollars, labels, tokensTold } from "../../shared/SandboxLabels.ts"
import { addressOf } from "../list/ListFilters.ts"
import { mayDelete } from "../list/SandboxBulk.ts"
import type { Shown } from "./SandboxPieces.ts"

/** Characters of an error that are shown. */
const MAX_SENTENCE = 2_000
/** Characters of a value of metadata that are shown. Longer ones lead to no list, whose address would be too long. */
const MAX_VALUE = 200

/** The title. A rename shows in the browser's tab too. */
export const title = ({ sandbox: { title } }: Shown): Html => html`<h1 id="title" data-piece="title" title="${title}">${title}</h1>`

export const rename = ({ csrf, sandbox: { id, title } }: Shown): Html =>
  html`<form id="rename" data-piece="rename" class="rename" method="post" action="/sandboxes/${id}/rename" data-live>${csrf}
<label for="new-title">Title</label>
<input id="new-title" name="title" type="text" required value="${title}" autocomplete="off">
<button class="quiet">Rename</button></form>`

/** With the link to the archive. */
export const pin = (id: SandboxId, csrf: Html, isPinned: boolean, isArchived: boolean): Html => {
  const [address, label] = isArchived ? ["unarchive", "Unarchive"] : ["archive", "Archive"]
  return html`<form id="pin" data-piece="pin" method="post" action="/sandboxes/${id}/pin" data-live>${csrf}
<button name="pinned" value="${isPinned ? "no" : "yes"}" class="quiet">${isPinned ? "Unpin" : "Pin"}</button>
<a class="button quiet" href="/sandboxes/${address}?id=${id}">${label}…</a></form>`
}

/** When the state began that goes on; `null`: none does. */
const since = (sandbox: Sandbox): DateTime.Utc | null => {
  const { createdAt, turn } = sandbox
  switch (attentionStateOf(sandbox)) {
    case "starting":
      return createdAt
    case "working":
      return turn?.startedAt ?? null
    default:
      return null
  }
}

/** The state in one word, how long it goes on, and the cost. */
export const state = ({ sandbox }: Shown): Html => {
  const at = since(sandbox)
  const { costMicroUsd } = sandbox.usage
  return html`<p id="state" data-piece="state">${stateBadge(sandbox)}
${at !== null && html`<span class="took" data-since="${DateTime.formatIso(at)}"></span>`}
${costMicroUsd > 0 && html`<span class="took">${dollars(costMicroUsd)}</span>`}</p>`
}

/** The one thing to do next: stop the turn, publish, or look at the pull request. */
const primary = ({ csrf, sandbox }: Shown): Html | false => {
  const { id, repos, status, turn } = sandbox
  if (status === "running" && isActive(turn)) {
    return html`<form method="post" action="/sandboxes/${id}/interrupt" data-live>${csrf}
<button class="quiet">Stop</button></form>`
  }
  const published = repos.flatMap(({ fullName }) => publicationOf(sandbox, fullName) ?? []).find(({ number }) => number !== null)
  if (published !== undefined) return html`<span class="as-button">${linkTo(published.url, `View #${published.number ?? 0}`)}</span>`
  const [repo, ...others] = repos
  if (repo === undefined || !hasTrees(sandbox) || attentionStateOf(sandbox) !== "ready") return false
  if (others.length > 0) return html`<a class="button" href="/sandboxes/${id}?view=pull">Publish…</a>`
  const isBusy = isUnderWay(publicationOf(sandbox, repo.fullName)) && html` disabled`
  return html`<form method="post" action="/sandboxes/${id}/pull-request" data-live>${csrf}
<input type="hidden" name="repo" value="${repo.fullName}">
<button${isBusy}>Publish<span class="if-wide"> draft PR</span></button></form>`
}

export const commands = (shown: Shown): Html => html`<div id="commands" data-piece="commands">${primary(shown)}</div>`

/** The facts in the menu, and how to end the sandbox. `isScripted`: its agent follows the prompt as a script, and no runtime takes part. */
export const facts = ({ by, sandbox }: Shown, isScripted: boolean): Html => {
  const reason = sandbox.reason !== null && labels.reason[sandbox.reason]
  const repos = sandbox.repos.map(({ fullName, ref }, i) =>
    html`${i > 0 && ", "}<a href="${addressOf({ repo: fullName })}">${fullName}</a>${ref !== undefined && html` at ${ref}`}`
  )
  const metadata = Object.entries(sandbox.metadata).map(([key, value], i) =>
    value.length > MAX_VALUE
      ? html`${i > 0 && ", "}${key}: ${Array.from(value).slice(0, MAX_VALUE).join("")}…`
      : html`${i > 0 && ", "}<a href="${addressOf({ metadata: { [key]: value } })}">${key}: ${value}</a>`
  )
  const { costMicroUsd, llmRequestCount } = sandbox.usage
  const tokens = tokensTold(sandbox.tokens)
  const { id, origin, status } = sandbox
  const from = origin !== null && html`<a href="/sandboxes/${origin.sandboxId}">Checkpoint ${origin.checkpoint} of ${origin.sandboxId}</a>`
  const isAlive = status === "queued" || status === "creating" || status === "running"
  const fact = (name: string, value: Html) =>
    html`
<div><dt>${name}</dt><dd>${value}</dd></div>`
  return html`<div id="facts" data-piece="facts"><dl class="strip">
${fact("State", html`<span id="status">${stateBadge(sandbox)}</span> <span id="reason">${reason}</span>`)}
${fact("Turn", html`<span id="turn">${sandbox.turn === null ? "None" : labels.turn[sandbox.turn.state]}</span>`)}
${fact("Repositories", html`${repos}`)}
${fact("Model", html`${sandbox.model} (${isScripted ? "follows a script" : sandbox.agentRuntime})`)}
${fact("Cost", html`<span id="cost">${dollars(costMicroUsd)}</span>, <span id="requests">${llmRequestCount}</span> model requests`)}
${metadata.length > 0 && fact("Metadata", html`${metadata}`)}
${from !== false && fact("Fork of", from)}
${tokens !== null && fact("Tokens", html`<span id="tokens">${tokens}</span>`)}
${fact("Created", moment(sandbox.createdAt))}
${sandbox.startedAt !== null && fact("Started", moment(sandbox.startedAt))}
${sandbox.completedAt !== null && fact("Ended", moment(sandbox.completedAt))}
</dl>
<p id="error" class="problem"${sandbox.error === null && html` hidden`}>${sandbox.error?.slice(0, MAX_SENTENCE) ?? null}</p>
${isAlive && html`<a class="button danger" href="/sandboxes/${id}/terminate">End sandbox…</a>`}
${isSettled(status) && mayDelete(by) && html`<a class="button danger" href="/sandboxes/delete?id=${id}">Delete sandbox…</a>`}</div>`
}
