/** How the pull requests of a sandbox stand, as its page shows it: with their checks, and what people say of them. */
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { hasTrees, isUnderWay, publicationOf, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { CommentWithText, PullRequestStatus } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, type Duration, Effect, Option } from "effect"
import { type Budget, fit } from "../../html/Fit.ts"
import { html, type Html, type Later } from "../../html/Html.ts"
import { moment } from "../../html/Moments.ts"
import { checksBadge, linkTo } from "../../shared/PullLabels.ts"
import { type Found, type CachedPullRequest, PullRequestCache, LOOKED_AT } from "../../shared/PullRequestCache.ts"
import { labels } from "../../shared/SandboxLabels.ts"
import * as Markdown from "../../text/Markdown.ts"

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

/** Bytes of the checks of all of them. */
const CHECKS_BYTES = 48 * 1024
/** Bytes of what people say of all of them. */
const COMMENTS_BYTES = 96 * 1024

const checks = ({ checks: { checkRuns, runs } }: PullRequestStatus, budget: Budget): Later => {
  const known: ReadonlyArray<{ readonly name: string; readonly url: string; readonly status: string; readonly conclusion?: string }> =
    checkRuns.length > 0 ? checkRuns : runs
  const item = ({ conclusion, name, status, url }: typeof known[number]) =>
    html`
<li>${linkTo(url, name)}: ${conclusion ?? status}</li>`
  return fit(known, budget, item, (items) => {
    const more = known.length - items.length
    const list = items.length > 0 && html`<ul>${items}
</ul>`
    return html`${list}${more > 0 && html`<p class="fine">${more} more checks: see the pull request.</p>`}`
  })
}

/** Empty, if none of its text fits. */
const comment = ({ author, createdAt, isWhole, line, path, text, url }: CommentWithText, budget: Budget): Later => {
  const at = DateTime.make(createdAt)
  // Screen readers need words that say where the link leads.
  const time = html`<span class="unseen">Comment of </span>${Option.isSome(at) ? moment(at.value) : createdAt}`
  const place = path !== null && html` <code class="place">${path}${line !== null && `:${line}`}</code>`
  return Markdown.render(text, { bytes: budget.bytes }, (shown, length) => {
    if (length === 0 && text !== "") return null
    const rest = (!isWhole || length < text.length) && html`<p class="fine">${linkTo(url, "Show the rest")}</p>`
    return html`
<li class="pull-comment"><p class="item-head"><span class="who">${author}</span> ${linkTo(url, time)}${place}</p>
${shown}${rest}</li>`
  })
}

/** Such as `github.com`. */
const siteOf = (url: string): string => URL.canParse(url) ? new URL(url).host : "its site"

const talk = ({ commentCount, comments, status: { pullRequest } }: CachedPullRequest, budget: Budget): Later | null => {
  if (commentCount === 0) return null
  // The newest comments get space first.
  return fit(comments.toReversed(), budget, (one) => comment(one, budget), (items) => {
    const more = commentCount - items.length
    const url = pullRequest?.url ?? ""
    return html`<p class="fine">${commentCount === 1 ? "1 comment" : `${commentCount} comments`}</p>
${more > 0 && html`<p class="fine">${linkTo(url, `${more} more on ${siteOf(url)}`)}</p>`}
<ol class="comments">${items.toReversed()}
</ol>`
  })
}

const one = (sandbox: Sandbox, pull: Pull, csrf: Html, budgets: { readonly checks: Budget; readonly comments: Budget }): Html => {
  const { found, problem, repo, state } = pull
  const publication = publicationOf(sandbox, repo)
  const known = found === null || typeof found === "string" ? null : found
  const told = known?.status.pullRequest ?? null
  const number = publication?.number ?? null
  const link = told !== null
    ? linkTo(told.url, `#${told.number} ${told.title}`)
    : number !== null && linkTo(publication?.url, `#${number} ${sandbox.title}`)
  const action = number !== null ? "Update pull request" : "Publish draft PR"
  const publish = html`<form method="post" action="/sandboxes/${sandbox.id}/pull-request" data-live>${csrf}
<input type="hidden" name="repo" value="${repo}">
<button class="quiet"${isUnderWay(publication) && html` disabled`}>${action}</button>
</form>`
  const review = known !== null && html`<p>${checksBadge(known.status.checks)} ${known.status.checks.label}</p>
${checks(known.status, budgets.checks)}${talk(known, budgets.comments)}`
  const reading = found === "reading" && html`<p class="fine">Loading checks and comments…
<a href="/sandboxes/${sandbox.id}?view=pull">Load the page again</a></p>`
  return html`<li class="pull">
<p><strong>${repo}</strong> <span class="state">${state}</span> ${link}</p>
${problem !== "" && html`<p class="problem">${problem}</p>`}
${review}${reading}
${hasTrees(sandbox) && publish}
</li>
`
}

/** Whether the pull request may change without an event: most source hosts send none, so it is read again. */
const mayChange = ({ found }: Pull): boolean =>
  found !== null && (typeof found === "string" || found.status.detailsPending || found.status.pullRequest?.state === "open")

export const render = (sandbox: Sandbox, pulls: ReadonlyArray<Pull>, csrf: Html): Html => {
  const budgets = { checks: { bytes: CHECKS_BYTES }, comments: { bytes: COMMENTS_BYTES } }
  const items = pulls.map((pull) => one(sandbox, pull, csrf, budgets))
  return html`<ul class="pulls" id="pulls" data-piece="pulls"${pulls.some(mayChange) && html` data-again`}>${items}</ul>`
}
