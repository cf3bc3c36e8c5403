/** Checks and comments of a pull request on pages. What hosts and people wrote is text; comments are Markdown. */
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { Checks, CommentWithText } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, Option } from "effect"
import { type Budget, fit } from "../html/Fit.ts"
import { html, type Later } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"
import * as Markdown from "../text/Markdown.ts"
import { linkTo } from "./PullLabels.ts"

/** The space of one page for checks and comments of all its pull requests. */
export const budgets = (): { readonly checks: Budget; readonly comments: Budget } => ({
  checks: { bytes: 48 * 1024 },
  comments: { bytes: 96 * 1024 }
})

interface Check {
  readonly name: string
  readonly url: string
  /** The host's words. */
  readonly status: string
  readonly conclusion?: string
}

const checksOf = ({ checkRuns, runs }: Checks): ReadonlyArray<Check> => checkRuns.length > 0 ? checkRuns : runs

/** Conclusions that ask nothing of the agent, in the words of GitHub. */
const HARMLESS: ReadonlyArray<string> = ["success", "neutral", "skipped", "stale"]

/** The checks that ended and did not pass. */
export const failedOf = (checks: Checks): ReadonlyArray<Check> =>
  checksOf(checks).filter(({ conclusion }) => conclusion !== undefined && !HARMLESS.includes(conclusion))

export const checksList = (checks: Checks, budget: Budget): Later => {
  const known = checksOf(checks)
  const item = ({ conclusion, name, status, url }: Check) =>
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

/** `comments`: the newest ones, oldest first. `count`: the number of all. `url`: the page that has the others. */
export const commentsList = (comments: ReadonlyArray<CommentWithText>, count: number, url: string, budget: Budget): Later | null => {
  if (count === 0) return null
  // The newest comments get space first.
  return fit(comments.toReversed(), budget, (one) => comment(one, budget), (items) => {
    const more = count - items.length
    return html`<p class="fine">${count === 1 ? "1 comment" : `${count} comments`}</p>
${more > 0 && html`<p class="fine">${linkTo(url, `${more} more on ${siteOf(url)}`)}</p>`}
<ol class="comments">${items.toReversed()}
</ol>`
  })
}

/** The form that sends it back to the agent. `back`: the page that Cancel leads to; otherwise that of the sandbox. */
export const sendBackAddress = ({ id }: Sandbox, repo: RepoName, back?: string): string =>
  `/sandboxes/${id}/send-back?${new URLSearchParams({ repo, ...(back === undefined ? {} : { next: back }) })}`
