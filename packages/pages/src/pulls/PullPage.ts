/**
 * `/local/:owner/:name/pulls/:number`: a pull request of a source host that has no page for it, with its diff, to merge and to close, for
 * those whose sandbox it is of.
 */
import { principalOf } from "@slipway/domain/access/rules/Session"
import { Feedback } from "@slipway/domain/publishing/usecases/Feedback"
import * as Review from "@slipway/domain/publishing/usecases/Review"
import type { SandboxNotFound } from "@slipway/domain/sandbox/ports/SandboxStore"
import { isSettled, publicationOf } from "@slipway/domain/sandbox/rules/Sandbox"
import { isActive } from "@slipway/domain/sandbox/rules/Turn"
import { type PullRequestCommit, type PullRequestContent, PullRequestRefused } from "@slipway/domain/source/ports/PullRequests"
import type { RepoNotAccessible, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { isProtected } from "@slipway/domain/source/rules/FileRules"
import { isUnderWay } from "@slipway/domain/source/rules/PullState"
import type { Checks, PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Duration, Effect, Option, Schema } from "effect"
import { HttpRouter } from "effect/http"
import { type Budget, fit } from "../html/Fit.ts"
import { html, type Html, type Later, type Part } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import * as ChangesList from "../sandboxes/changes/ChangesList.ts"
import * as DiffLayout from "../sandboxes/changes/DiffLayout.ts"
import * as FilesAddress from "../sandboxes/files/FilesAddress.ts"
import * as SandboxChanges from "../sandboxes/files/SandboxChanges.ts"
import * as PullDetails from "../shared/PullDetails.ts"
import { checksBadge, pullBadge } from "../shared/PullLabels.ts"
import * as SharedReadings from "../shared/SharedReadings.ts"
import * as Markdown from "../text/Markdown.ts"
import * as RequestChanges from "./RequestChanges.ts"

/** Git's answers about a pull request. A refusal says why there is no patch. */
interface Read {
  readonly content: PullRequestContent | null
  readonly patch: Uint8Array | PullRequestRefused
}

const decodeRepo = Schema.decodeUnknownOption(RepoName)

const noPull = Refused.notFound("Pull request not found.")

/** Numbers of pull requests as addresses have them. */
const NUMBER = /^[1-9]\d{0,8}$/u
const SHA = /^[0-9a-f]{40,64}$/u

const incomplete = Refused.bad("This form is incomplete. Reload the page and try again.")

/** Bytes of the task, which may be as long as a prompt, of the description, and of the commits. */
const TASK_BYTES = 32 * 1024
const COMMITS_BYTES = 32 * 1024
/** How long git's answers hold while state and branch of a pull request are the same: its base may have moved. */
const HOLDS = Duration.minutes(1)
/** Bytes of all patches that are remembered: three of the largest. */
const MAX_PATCHES = 32 * 2 ** 20
/** Newest comments that are shown. */
const MAX_COMMENTS = 20

const MESSAGES = {
  merged: "Merged.",
  pushed: "Merged what you reviewed; the pull request stays open for newer commits.",
  again: "Already merged.",
  closed: "Closed.",
  before: "Already closed.",
  ready: "Marked as ready for review.",
  requested: "Changes requested. The agent works on them next, then updates this pull request."
}

/** Commands for people who have a clone of the repository, but perhaps no access to the machine of the service. */
const byHand = ({ baseRef, headRef }: PullRequest): Html =>
  html`<pre tabindex="0"><code>git fetch origin
git switch ${baseRef}
git merge --no-ff origin/${headRef}
git push origin ${baseRef}</code></pre>`

const refusal = ({ number, reason, repo }: PullRequestRefused, pull: PullRequest, doing: "merge" | "close"): Refused => {
  const base = pull.baseRef
  const operator = `slipway pulls ${doing} ${repo} ${number ?? ""}`
  const onMachine = html`<p>For details, run this on the machine of the service:</p>
<pre tabindex="0"><code>${operator}</code></pre>`
  const page = html`<p><a href="/local/${repo}/pulls/${number ?? ""}">Back to the pull request</a></p>`
  const conflict = (text: string, more: Html | null = null) =>
    new Refused({ status: 409, title: "Not possible right now", text: `Nothing changed. ${text}`, more: html`${more}${page}` })
  switch (reason) {
    case "unknown repository":
    case "unknown number":
      return noPull
    case "closed":
      return conflict("This pull request was closed without merging. The next publication of its sandbox opens another one.")
    case "merged":
      return conflict("This pull request was merged. Closing does not undo that.")
    case "conflict":
      return conflict(
        `It conflicts with ${base}. Ask the sandbox to bring ${base} into its branch and publish again, or merge it in a clone:`,
        byHand(pull)
      )
    case "outdated":
      return conflict("New commits were pushed since you looked. Review them, then merge.")
    case "moved":
      return conflict(`${base} changed meanwhile. Try again.`)
    case "checked out":
      return conflict(`${base} is checked out on the machine of the service, where a person may work on it.`, onMachine)
    case "no base":
      return conflict(`The branch ${base} no longer exists.`)
    default:
      return conflict("The repository rejected it.", onMachine)
  }
}

/** Why there is no diff. */
const noDiff = ({ reason }: PullRequestRefused, { baseRef, headRef }: PullRequest): string => {
  switch (reason) {
    case "too large":
      return "Too much changed to be shown here."
    case "no base":
      return `There is no branch ${baseRef} to compare it with.`
    case "no commit":
      return `Its branch ${headRef} was deleted, and its commits are gone.`
    case "nothing in common":
      return `${headRef} and ${baseRef} have no commit in common.`
    case "merged without a merge commit":
      return `${baseRef} was moved on to it, so it is unknown where it began.`
    default:
      return "The repository cannot be read just now."
  }
}

type Files = Effect.Success<ReturnType<typeof SandboxChanges.filesOf>>

/** The part of its page that shows a diff. */
interface View {
  /** Its address without a query. */
  readonly address: string
  readonly chosen: DiffLayout.Chosen
  /** How many files of the list, or lines of the file, come before the first one shown. */
  readonly after: number
  /** Whether changes can be requested. */
  readonly isAsking: boolean
}

const linkOf = ({ address, chosen }: View, fields: Readonly<Record<string, string>>): string => {
  const query = new URLSearchParams({ ...chosen.fields, ...fields })
  return query.size === 0 ? address : `${address}?${query}`
}

const lookOf = ({ address, chosen: { fields, layout }, isAsking }: View): SandboxChanges.Look => ({
  layout,
  commentForm: isAsking ? (path, id) => RequestChanges.lineForm(address, path, id, fields) : null
})

/** The files, and what changed in those that there is space for. */
const together = (files: Files, view: View): Later => {
  const { address, after, chosen } = view
  const alone = (path: string) => linkOf(view, { path })
  const listFrom = (after: number) => linkOf(view, { after: String(after) })
  const rest = files.slice(after)
  return SandboxChanges.sectionsOf(rest, files, alone, SandboxChanges.spaceTogether(), lookOf(view), (sections) => {
    const anchors = new Map(files.map((file, i) => [file.path, `#file-${i + 1}`]))
    const placeOf = (of: string) => sections.has(of) ? anchors.get(of) ?? alone(of) : alone(of)
    const list = { files, partialWarnings: [] }
    return html`${ChangesList.render(list, placeOf, { bytes: SandboxChanges.LIST_BYTES }, listFrom, { after })}
${sections.size > 0 && DiffLayout.links(chosen.layout, listFrom(after))}
${SandboxChanges.viewedCount(address)}
${[...sections.values()]}
${SandboxChanges.moreFiles(files, rest, sections, listFrom)}`
  })
}

/** One of the files. */
const alone = (files: Files, path: string, view: View): Html => {
  const file = files.find((one) => one.path === path)
  const restFrom = (after: number) => linkOf(view, { path, after: String(after) })
  const shown = file === undefined || isProtected(path)
    ? html`<p>File not found.</p>`
    : html`${DiffLayout.links(view.chosen.layout, restFrom(view.after))}
${SandboxChanges.patchedShown(file, restFrom, view.after, lookOf(view))}`
  return html`<p class="fine"><a href="${linkOf(view, {})}">All files</a></p>
<h3>${path}</h3>
${shown}`
}

/** Changes are a message, which a running sandbox takes. A finished one is continued by a new one. */
const canAsk = ({ pullRequest, sandbox }: Found): boolean =>
  pullRequest.state === "open" && (sandbox.status === "running" || isSettled(sandbox.status))

type Found = Effect.Success<ReturnType<NonNullable<Effect.Success<typeof Review.make>>["find"]>>

const addressOf = ({ pullRequest: { number }, repo }: Found): string => `/local/${repo}/pulls/${number}`

const ofChecks: Readonly<Record<Checks["state"], string>> = {
  success: "All checks passed.",
  failure: "Some checks failed.",
  pending: "Checks are running.",
  idle: "No checks.",
  error: "The checks could not be loaded."
}

/** The state in one or two sentences: what a person should know before merging. */
const sentenceOf = ({ checks, pullRequest, repo, sandbox }: Found): string => {
  if (pullRequest.merged) return `Merged into ${pullRequest.baseRef}.`
  if (pullRequest.state === "closed") return "Closed without merging."
  if (isUnderWay(publicationOf(sandbox, repo))) return `${ofChecks[checks.state]} An update is being published.`
  if (isActive(sandbox.turn)) return `${ofChecks[checks.state]} The agent is working on more.`
  return ofChecks[checks.state]
}

/** The address that asks before it merges the commit that this page shows. */
const mergeAddress = (found: Found): string => `${addressOf(found)}/merge?sha=${found.pullRequest.headSha}`

const mergeBox = (found: Found, csrf: Html, budget: Budget): Html => {
  const address = addressOf(found)
  const { checks, pullRequest: { baseRef, draft, state }, repo, sandbox } = found
  const ready = draft && html`<form method="post" action="${address}/ready">${csrf}<button class="quiet">Ready for review</button></form>
`
  const actions = html`<div class="actions">
<a class="button" href="${mergeAddress(found)}">Merge into ${baseRef}…</a>
${ready}<form method="post" action="${address}/close">${csrf}<button class="quiet">Close</button></form>
<a class="button quiet" href="${PullDetails.sendBackAddress(sandbox, repo, address)}">Send back to the agent…</a></div>`
  return html`<aside class="panel merge-box" aria-labelledby="merge-title"><h2 id="merge-title">Merge</h2>
<p>${sentenceOf(found)} ${checksBadge(checks)}</p>
${PullDetails.checksList(checks, budget)}
${state === "open" && actions}</aside>`
}

/** Newest commits that do not fold away. */
const UNFOLDED = 10

const commitsList = ({ commitCount, commits }: PullRequestContent): Later => {
  const item = ({ at, author, sha, title }: PullRequestCommit) =>
    html`
<li><code>${sha.slice(0, 7)}</code> ${title} <span class="fine">${author}, ${moment(at)}</span></li>`
  // The newest commits get space first.
  return fit(commits.toReversed(), { bytes: COMMITS_BYTES }, item, (items) => {
    const more = commitCount - items.length
    return html`<section aria-labelledby="commits-title"><h2 id="commits-title">Commits</h2>
<details${commitCount <= UNFOLDED && html` open`}><summary>${commitCount === 1 ? "1 commit" : `${commitCount} commits`}</summary>
${more > 0 && html`<p class="fine">${more} earlier commits hidden.</p>`}
<ol class="commits" start="${more + 1}">${items.toReversed()}
</ol></details></section>`
  })
}

/** Its description and commits; `null`: they cannot be read. */
const contentOf = (content: PullRequestContent | null): Html => {
  if (content === null) return html`<p class="fine">The commits could not be loaded.</p>`
  const { description } = content
  const shown = Markdown.render(
    description,
    { bytes: TASK_BYTES },
    (text, length) => html`${text}${length < description.length && html`<p class="fine">The description was cut.</p>`}`
  )
  const section = html`<section aria-labelledby="description-title"><h2 id="description-title">Description</h2>
<div class="task">${shown}</div></section>`
  return html`${description.trim() !== "" && section}
${commitsList(content)}`
}

/** Its branches and times, and the task. */
const about = ({ pullRequest, repo, sandbox }: Found): Html => {
  const { additions, baseRef, changedFiles, createdAt, deletions, headRef, updatedAt } = pullRequest
  const changed = changedFiles === 1 ? "1 file" : `${changedFiles} files`
  const lines = html`<span class="added-count">+${additions}</span> <span class="removed-count">−${deletions}</span>`
  const task = Markdown.render(sandbox.prompt, { bytes: TASK_BYTES }, (shown, length) =>
    html`<div class="task">${shown}</div>
${length < sandbox.prompt.length && html`<p class="fine">The task goes on in its <a href="/sandboxes/${sandbox.id}">sandbox</a>.</p>`}`)
  return html`<p class="fine">${repo}: <code>${headRef}</code> into <code>${baseRef}</code> · ${changed}, ${lines}</p>
<p class="fine">Opened ${moment(createdAt)} · Updated ${moment(updatedAt)} · <a href="/sandboxes/${sandbox.id}">Sandbox</a></p>
<section aria-labelledby="task-title"><h2 id="task-title">Task</h2>
${task}</section>`
}

/** Its description, commits, comments and changes. */
const reviewed = ({ comments, pullRequest: { url } }: Found, content: PullRequestContent | null, diff: Part, budget: Budget): Html => {
  const talk = comments.length > 0 && html`<section aria-labelledby="comments-title"><h2 id="comments-title">Comments</h2>
${PullDetails.commentsList(comments.slice(-MAX_COMMENTS), comments.length, url, budget)}</section>`
  return html`${contentOf(content)}
${talk}
<section aria-labelledby="diff-title"><h2 id="diff-title">Changes</h2>
${diff}</section>`
}

const page = (member: Page.Member, found: Found, outcome: Html | null, budget: Budget, isAsking: boolean): Html => {
  const { number, state, title } = found.pullRequest
  const primary = state === "open"
    ? html`<a class="button" href="${mergeAddress(found)}">Merge…</a>`
    : html`<a class="button quiet" href="/sandboxes/${found.sandbox.id}">View sandbox</a>`
  return html`<div class="review"><div class="bar">
<a class="back" href="/pulls" aria-label="Pull requests"><span aria-hidden="true">‹</span></a>
<h1 title="${title}">${title} <span class="fine">#${number}</span></h1>
<p id="state">${pullBadge(found.pullRequest)}</p>
${primary}</div>
<div id="outcome">${outcome}</div>
<div class="columns">
${mergeBox(found, member.csrf, budget)}
<div class="reviewed">
${about(found)}
${isAsking && RequestChanges.form(addressOf(found), member.csrf)}
${Page.latePlace}</div></div></div>`
}

/** Asks git once for all who look at the same time, and not again while the answer holds. */
const reading = Effect.fnUntraced(function*(review: NonNullable<Effect.Success<typeof Review.make>>) {
  const readings = SharedReadings.make<Read, RepoNotAccessible | SourceHostError | StoreUnavailable>(
    MAX_PATCHES,
    ({ patch }) => patch instanceof Uint8Array ? patch.length : 0,
    yield* Effect.scope
  )

  return (found: Found) => {
    const { pullRequest: { headSha, merged, number, state }, repo } = found
    const version = `${headSha} ${state} ${merged}`
    const content = Effect.catchTag(review.content(found), "PullRequestRefused", () => Effect.succeed(null))
    const patch = Effect.catchTag(review.diff(found), "PullRequestRefused", (refused) => Effect.succeed(refused))
    return readings.read({
      key: `${repo} ${number}`,
      state: version,
      isFresh: (last, ageMillis) => last.version === version && ageMillis < Duration.toMillis(HOLDS),
      versionOf: ({ patch }) => patch instanceof Uint8Array ? version : null,
      find: Effect.all({ content, patch }, { concurrency: 2 })
    })
  }
})

/** The repository and the number in the address of a page. */
const named = Effect.fnUntraced(function*({ params }: Page.Asked) {
  const repo = yield* Effect.mapError(Effect.fromOption(decodeRepo(`${params["owner"]}/${params["name"]}`)), () => noPull)
  const number = params["number"] ?? ""
  return NUMBER.test(number) ? { repo, number: Number(number) } : yield* noPull
})

/** Missing pull requests, and those of other grants, look the same: not found. */
const answered = <A, R>(self: Effect.Effect<A, Refused | RepoNotAccessible | SandboxNotFound | SourceHostError | StoreUnavailable, R>) =>
  Effect.catchTags(self, {
    SandboxNotFound: () => Effect.fail(noPull),
    RepoNotAccessible: () => Effect.fail(noPull),
    SourceHostError: ({ detail, retryable }) =>
      Effect.fail(retryable ? new Refused({ status: 502, title: "Not now", text: detail }) : noPull)
  })

/** The question before a merge of the commit `sha`. */
const mergeConfirmation = (member: Page.Member, found: Found, sha: string): Html => {
  const { checks: { state }, pullRequest: { baseRef, number, title }, repo } = found
  const address = addressOf(found)
  return html`<h1>Merge this pull request?</h1>
<p><strong>${title}</strong> #${number} becomes part of <code>${baseRef}</code> of ${repo}. This can't be undone here.</p>
${state !== "success" && state !== "idle" && html`<p class="warning">${ofChecks[state]}</p>`}
<div class="actions">
<form method="post" action="${address}/merge">${member.csrf}<input type="hidden" name="sha" value="${sha}">
<button>Merge into ${baseRef}</button></form>
<a class="button quiet" href="${address}">Cancel</a></div>`
}

const notPossible = (text: string) => Effect.fail(new Refused({ status: 409, title: "Not possible right now", text }))

/** Why changes cannot be requested, as pages. */
const requestRefusals = {
  SandboxNotRunning: () => notPossible("The sandbox does not run, so it takes no requests."),
  QueueFull: ({ message }: { readonly message: string }) => notPossible(message),
  NoCredits: ({ message }: { readonly message: string }) => notPossible(message),
  BudgetExceeded: ({ message }: { readonly message: string }) => notPossible(message),
  RepoNotFound: () => Effect.fail(noPull),
  RepoRequired: () => Effect.fail(noPull),
  NoFailingChecks: () => Effect.fail(noPull)
}

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const review = yield* Review.make
  // Pull requests of any other host have a page there.
  if (review === null) return
  const feedback = yield* Effect.serviceOption(Feedback)
  const layoutOf = yield* DiffLayout.make
  const readOf = yield* reading(review)

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const { number, repo } = yield* named(asked)
    const found = yield* review.find(principalOf(member.visit), repo, number)
    const { pullRequest } = found
    const { title } = pullRequest
    const address = addressOf(found)
    const path = asked.url.searchParams.get("path")
    const isAsking = canAsk(found)
    const view: View = { address, after: yield* FilesAddress.afterOf(asked.url), chosen: yield* layoutOf(asked.url), isAsking }
    const diffOf = ({ patch }: Read) =>
      patch instanceof Uint8Array
        ? Effect.map(SandboxChanges.filesOf(patch, path), (files) => path === null ? together(files, view) : alone(files, path, view))
        : Effect.succeed(html`<p>${noDiff(patch, pullRequest)}</p>`)
    const budgets = PullDetails.budgets()
    // Git takes longer to tell them than the rest of the page takes.
    const late = answered(Effect.flatMap(
      readOf(found),
      (read) => Effect.map(diffOf(read), (diff) => reviewed(found, read.content, diff, budgets.comments))
    ))
    const body = page(member, found, Page.told(asked, MESSAGES), budgets.checks, isAsking)
    const document = { title: `${title} #${number}`, place: "pulls", body, scripts: ["viewed.js", "review.js"] } as const
    return Page.showWithLate(document, member, late, "Loading changes…", view.chosen)
  }, answered)

  const askToMerge: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const { number, repo } = yield* named(asked)
    const sha = asked.url.searchParams.get("sha") ?? ""
    if (!SHA.test(sha)) return yield* incomplete
    const found = yield* review.find(principalOf(member.visit), repo, number)
    const { headSha, merged, state } = found.pullRequest
    if (state !== "open") return Page.redirect(`${addressOf(found)}?done=${merged ? "again" : "before"}`)
    if (sha !== headSha) {
      return yield* refusal(new PullRequestRefused({ repo, number, reason: "outdated", detail: "" }), found.pullRequest, "merge")
    }
    const body = mergeConfirmation(member, found, sha)
    return Page.show({ title: "Merge this pull request?", place: "pulls", body }, member)
  }, answered)

  const end = (doing: "merge" | "close"): Page.Handler<Page.Member> =>
    Effect.fnUntraced(function*(member, asked) {
      const { number, repo } = yield* named(asked)
      const sha = doing === "merge" ? yield* asked.form.one("sha") : ""
      if (doing === "merge" && !SHA.test(sha)) return yield* incomplete
      const found = yield* review.find(principalOf(member.visit), repo, number)
      const ended = yield* Effect.catchTag(
        doing === "merge" ? review.merge(found, sha) : review.close(found),
        "PullRequestRefused",
        (refused) => Effect.fail(refusal(refused, found.pullRequest, doing))
      )
      const done: keyof typeof MESSAGES = doing === "close"
        ? ended.changed ? "closed" : "before"
        : ended.changed
        ? ended.pullRequest.merged ? "merged" : "pushed"
        : "again"
      return Page.redirect(`/local/${repo}/pulls/${number}?done=${done}`)
    }, answered)

  const markReady: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const { number, repo } = yield* named(asked)
    const found = yield* review.find(principalOf(member.visit), repo, number)
    const { draft, state } = yield* review.ready(found)
    return Page.redirect(`${addressOf(found)}?done=${state === "open" && !draft ? "ready" : "before"}`)
  }, answered)

  const requestChanges: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const { number, repo } = yield* named(asked)
    const sent = (yield* asked.form.one("text")).toWellFormed().replaceAll("\0", "")
    if (sent.trim() === "" || sent.length > RequestChanges.MAX_REQUEST) return yield* incomplete
    if (Option.isNone(feedback)) return yield* noPull
    const found = yield* review.find(principalOf(member.visit), repo, number)
    const { comments, text } = RequestChanges.parse(sent)
    const wanted = { repo, text, comments, checks: false, authorName: member.visit.user.name }
    yield* Effect.catchTags(feedback.value.request(principalOf(member.visit), found.sandbox.id, wanted), requestRefusals)
    return Page.redirect(`${addressOf(found)}?done=requested`)
  }, answered)

  yield* members("/local/:owner/:name/pulls/:number", { GET: get })
  yield* members("/local/:owner/:name/pulls/:number/request-changes", { POST: requestChanges })
  yield* members("/local/:owner/:name/pulls/:number/merge", { GET: askToMerge, POST: end("merge") })
  yield* members("/local/:owner/:name/pulls/:number/ready", { POST: markReady })
  yield* members("/local/:owner/:name/pulls/:number/close", { POST: end("close") })
}))
