/** How the pull requests of a sandbox stand, as its page shows it: with their checks, and what people say of them. */
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { hasTrees, isSettled, publicationOf, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { isUnderWay } from "@slipway/domain/source/rules/PullState"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { type Duration, Effect } from "effect"
import type { Budget } from "../../html/Fit.ts"
import { html, type Html } from "../../html/Html.ts"
import * as PullDetails from "../../shared/PullDetails.ts"
import { checksBadge, linkTo, publishLabel } from "../../shared/PullLabels.ts"
import { type Found, PullRequestCache, LOOKED_AT } from "../../shared/PullRequestCache.ts"
import { labels } from "../../shared/SandboxLabels.ts"

interface Pull {
  readonly repo: RepoName
  /** In words: "Draft", "Merged", "Publishing". */
  readonly state: string
  /** Why it is not as it should be. */
  readonly problem: string
  /** `null`: there is none. */
  readonly found: Found | null
}

const stateOf = (sandbox: Sandbox, repo: RepoName): string => {
  const publication = publicationOf(sandbox, repo)
  if (publication === undefined) return "Not published"
  if (labels.action[publication.actionState] !== "") return labels.action[publication.actionState]
  if (publication.number === null) return "Not published"
  return publication.merged === true ? "Merged" : publication.state === "closed" ? "Closed" : publication.draft === true ? "Draft" : "Open"
}

const problemOf = (sandbox: Sandbox, repo: RepoName): string => {
  const error = publicationOf(sandbox, repo)?.error ?? null
  return error === null ? "" : error.code === "invalid_request" ? "Nothing to publish." : error.message
}

const SILENT = "The source host does not respond."
const NO_SUCCESSOR = "Feedback is paused, because no new sandbox may go on with this finished one. The conversation has the reason."

export const make = Effect.map(
  PullRequestCache,
  (known) => (by: Principal, sandbox: Sandbox, patience: Duration.Duration) =>
    Effect.forEach(
      sandbox.repos,
      Effect.fnUntraced(function*({ fullName: repo }) {
        const exists = (publicationOf(sandbox, repo)?.number ?? null) !== null
        const found = exists ? yield* known.find(by, sandbox, repo, { holds: LOOKED_AT, patience }) : null
        const pull: Pull = { repo, state: stateOf(sandbox, repo), problem: found === "silent" ? SILENT : problemOf(sandbox, repo), found }
        return pull
      }),
      { concurrency: "unbounded" }
    )
)

const one = (sandbox: Sandbox, pull: Pull, csrf: Html, budgets: { readonly checks: Budget; readonly comments: Budget }): Html => {
  const { found, problem, repo, state } = pull
  const publication = publicationOf(sandbox, repo)
  const known = found === null || typeof found === "string" ? null : found
  const told = known?.status.pullRequest ?? null
  const number = publication?.number ?? null
  const link = told !== null
    ? linkTo(told.url, `#${told.number} ${told.title}`)
    : number !== null && linkTo(publication?.url, `#${number} ${sandbox.title}`)
  const publish = html`<form method="post" action="/sandboxes/${sandbox.id}/pull-request" data-live>${csrf}
<input type="hidden" name="repo" value="${repo}">
<button class="quiet"${isUnderWay(publication) && html` disabled`}>${publishLabel(number)}</button>
</form>`
  const isDraft = publication?.draft === true && publication.state === "open" && !isUnderWay(publication)
  const ready = html`<form method="post" action="/sandboxes/${sandbox.id}/pull-request" data-live>${csrf}
<input type="hidden" name="repo" value="${repo}"><input type="hidden" name="ready" value="yes">
<button class="quiet">Publish and mark as ready</button>
</form>`
  const review = known !== null && html`<p>${checksBadge(known.status.checks)} ${known.status.checks.label}</p>
${PullDetails.checksList(known.status.checks, budgets.checks)}
${PullDetails.commentsList(known.comments, known.commentCount, told?.url ?? "", budgets.comments)}`
  const answer = (action: "checks" | "resume", text: string) =>
    html`<form method="post" action="/sandboxes/${sandbox.id}/feedback" data-live>${csrf}
<input type="hidden" name="repo" value="${repo}"><input type="hidden" name="action" value="${action}">
<button class="quiet">${text}</button></form>`
  const isFailing = known?.status.checks.state === "failure" && told?.state === "open" && sandbox.status === "running"
  const { continuedBy = null, paused: isPaused = false, policy, rounds = 0 } = sandbox.feedback ?? {}
  // Not after its rounds: why no new sandbox goes on with a finished one is in the conversation.
  const why = isSettled(sandbox.status) && rounds < (policy?.rounds ?? 0) ? NO_SUCCESSOR : labels.paused({ rounds })
  const paused = isPaused && continuedBy === null && html`<p class="problem">${why}</p>
${answer("resume", "Continue feedback")}`
  const reading = found === "reading" && html`<p class="fine">Loading checks and comments…
<a href="/sandboxes/${sandbox.id}?view=pull">Load the page again</a></p>`
  return html`<li class="pull">
<p><strong>${repo}</strong> <span class="state">${state}</span> ${link}</p>
${problem !== "" && html`<p class="problem">${problem}</p>`}
${review}${reading}
${told?.state === "open" && html`<p><a href="${PullDetails.sendBackAddress(sandbox, repo)}">Send back to the agent…</a></p>`}
${isFailing && answer("checks", "Fix the failing checks")}
${paused}
${hasTrees(sandbox) && publish}
${hasTrees(sandbox) && isDraft && ready}
</li>
`
}

/** Whether the pull request may change without an event: most source hosts send none, so it is read again. */
const mayChange = ({ found }: Pull): boolean =>
  found !== null && (typeof found === "string" || found.status.detailsPending || found.status.pullRequest?.state === "open")

export const render = (sandbox: Sandbox, pulls: ReadonlyArray<Pull>, csrf: Html): Html => {
  const budgets = PullDetails.budgets()
  const items = pulls.map((pull) => one(sandbox, pull, csrf, budgets))
  return html`<ul class="pulls" id="pulls" data-piece="pulls"${pulls.some(mayChange) && html` data-again`}>${items}</ul>`
}
