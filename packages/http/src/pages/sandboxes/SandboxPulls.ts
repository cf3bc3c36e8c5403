/** How the pull requests of a sandbox stand, as its page shows it. */
import type { Principal } from "@slipway/domain/access/Principal"
import { Publishing } from "@slipway/domain/publishing/Publishing"
import { isUnderWay, publicationOf, type Sandbox } from "@slipway/domain/sandbox/Sandbox"
import type { PullRequestStatus } from "@slipway/domain/source/PullRequest"
import type { RepoName } from "@slipway/domain/source/RepoRef"
import { Effect } from "effect"
import { html, type Html } from "../Html.ts"
import { words } from "./SandboxWords.ts"

/** A page does not wait longer for the source host. */
const PATIENCE = "3 seconds"

/** Addresses come from the source host: only those of the web become links. */
const linkTo = (url: string, text: string): Html =>
  /^https?:\/\//iu.test(url) ? html`<a href="${url}" rel="noreferrer">${text}</a>` : html`${text}`

interface Pull {
  readonly repo: RepoName
  /** In words: "Draft", "Merged", "Publishing". */
  readonly state: string
  /** Why it is not as it should be. */
  readonly problem: string
  /** `null`: there is none, or the source host does not answer now. */
  readonly status: PullRequestStatus | null
}

const stateOf = (sandbox: Sandbox, repo: RepoName): string => {
  const publication = publicationOf(sandbox, repo)
  if (publication === undefined) return "Not published"
  if (words.action[publication.actionState] !== "") return words.action[publication.actionState]
  if (publication.number === null) return "Not published"
  return publication.merged === true ? "Merged" : publication.state === "closed" ? "Closed" : publication.draft === true ? "Draft" : "Open"
}

const problemOf = (sandbox: Sandbox, repo: RepoName): string => {
  const error = publicationOf(sandbox, repo)?.error ?? null
  return error === null ? "" : error.code === "invalid_request" ? "There was nothing to publish." : error.message
}

export const make = Effect.map(Publishing, (publishing) =>
  Effect.fnUntraced(function*(by: Principal, sandbox: Sandbox) {
    return yield* Effect.forEach(
      sandbox.repos,
      Effect.fnUntraced(function*({ fullName: repo }) {
        const exists = (publicationOf(sandbox, repo)?.number ?? null) !== null
        // The page is there without it: whatever is wrong with the host is told in its place.
        const status = exists
          ? yield* publishing.status(by, sandbox.id, repo).pipe(Effect.timeout(PATIENCE), Effect.orElseSucceed(() => null))
          : null
        const problem = exists && status === null ? "The source host does not answer now." : problemOf(sandbox, repo)
        const pull: Pull = { repo, state: stateOf(sandbox, repo), problem, status }
        return pull
      }),
      { concurrency: 4 }
    )
  }))

const checks = ({ checks: { checkRuns, runs }, comments }: PullRequestStatus): Html => {
  const shown = checkRuns.length > 0 ? checkRuns : runs
  const items = shown.map(({ conclusion, name, status, url }) =>
    html`
<li>${linkTo(url, name)}: ${conclusion ?? status}</li>`
  )
  const list = items.length > 0 && html`<ul>${items}
</ul>`
  return html`${list}<p class="fine">${comments.length === 1 ? "1 comment" : `${comments.length} comments`}</p>`
}

/** Fields are filled in again by `live.js`. */
const one = (sandbox: Sandbox, { problem, repo, state, status }: Pull, csrf: Html): Html => {
  const pull = status?.pullRequest ?? null
  const publication = publicationOf(sandbox, repo)
  const isKnown = (publication?.number ?? null) !== null
  const link = pull === null ? isKnown && html`#${publication?.number ?? ""}` : linkTo(pull.url, `#${pull.number} ${pull.title}`)
  const whileRunning = sandbox.status !== "running" && html` hidden`
  const action = isKnown ? "Update the pull request" : "Publish a draft pull request"
  return html`<li class="pull" data-repo="${repo}">
<p><strong>${repo}</strong> <span class="state" data-field="state">${state}</span> <span data-field="link">${link}</span></p>
<p class="problem" data-field="problem"${problem === "" && html` hidden`}>${problem}</p>
<p data-field="checks">${status !== null && status.checks.label}</p>
<div data-field="runs">${status !== null && checks(status)}</div>
<form method="post" action="/sandboxes/${sandbox.id}/pull-request" data-when="running"${whileRunning}>${csrf}
<input type="hidden" name="repo" value="${repo}">
<button class="quiet"${isUnderWay(publication) && html` disabled`}>${action}</button>
</form>
</li>
`
}

export const render = (sandbox: Sandbox, pulls: ReadonlyArray<Pull>, csrf: Html): Html =>
  html`<ul class="pulls">${pulls.map((pull) => one(sandbox, pull, csrf))}</ul>`
