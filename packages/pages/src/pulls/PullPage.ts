/**
 * `/local/:owner/:name/pulls/:number`: a pull request of a source host that has no page for it, with its diff, to merge and to close, for
 * those whose sandbox it is of.
 */
import { principalOf } from "@slipway/domain/access/rules/Session"
import * as Review from "@slipway/domain/publishing/usecases/Review"
import type { SandboxNotFound } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { PullRequestRefused } from "@slipway/domain/source/ports/PullRequests"
import type { RepoNotAccessible, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { isProtected } from "@slipway/domain/source/rules/FileRules"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Effect, Schema } from "effect"
import { HttpRouter } from "effect/http"
import { html, type Html, type Later } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import * as ChangesList from "../sandboxes/changes/ChangesList.ts"
import * as FilesAddress from "../sandboxes/files/FilesAddress.ts"
import * as SandboxChanges from "../sandboxes/files/SandboxChanges.ts"
import { pullBadge } from "../shared/PullLabels.ts"

const decodeRepo = Schema.decodeUnknownOption(RepoName)

const noPull = Refused.notFound("There is no such pull request.")

/** Numbers of pull requests as addresses have them. */
const NUMBER = /^[1-9]\d{0,8}$/u
const SHA = /^[0-9a-f]{40,64}$/u

const MESSAGES = {
  merged: "It is merged.",
  pushed: "What you saw is merged. Its branch was pushed to meanwhile, so it stays open.",
  again: "It was merged already. Nothing was done.",
  closed: "It is closed.",
  before: "It was closed already. Nothing was done."
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
  const onMachine = html`<p>On the machine of the service this says more:</p>
<pre tabindex="0"><code>${operator}</code></pre>`
  const page = html`<p><a href="/local/${repo}/pulls/${number ?? ""}">Back to the pull request</a></p>`
  const conflict = (text: string, more: Html | null = null) =>
    new Refused({ status: 409, title: "Not as things stand", text: `Nothing was changed. ${text}`, more: html`${more}${page}` })
  switch (reason) {
    case "unknown repository":
    case "unknown number":
      return noPull
    case "closed":
      return conflict("It was closed without being merged. The next publication of its sandbox opens another one.")
    case "merged":
      return conflict("It was merged, which cannot be taken back by closing it.")
    case "conflict":
      return conflict(
        `It conflicts with ${base}. Ask the sandbox to bring ${base} into its branch and publish again, or merge it in a clone:`,
        byHand(pull)
      )
    case "outdated":
      return conflict("Its branch was pushed to since you looked. Look at what changed, and merge it then.")
    case "moved":
      return conflict(`${base} was moved by somebody else meanwhile. Try again.`)
    case "checked out":
      return conflict(`${base} is checked out on the machine of the service, where a person may work on it.`, onMachine)
    case "no base":
      return conflict(`There is no branch ${base} any more.`)
    default:
      return conflict("The repository does not let it be done.", onMachine)
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

/** The files, and what changed in those that there is space for. */
const together = (files: Files, address: string, linkOf: (path: string) => string, after: number): Later =>
  SandboxChanges.sectionsOf(files.slice(after), files, linkOf, SandboxChanges.spaceTogether(), (sections) => {
    const anchors = new Map(files.map((file, i) => [file.path, `#file-${i + 1}`]))
    const placeOf = (of: string) => sections.has(of) ? anchors.get(of) ?? linkOf(of) : linkOf(of)
    const listFrom = (from: number) => `${address}?after=${from}`
    const list = { files, partialWarnings: [] }
    return html`${ChangesList.render(list, placeOf, { bytes: SandboxChanges.LIST_BYTES }, listFrom, { after })}
${SandboxChanges.viewedCount(address)}
${[...sections.values()]}`
  })

/** One of the files. */
const alone = (files: Files, path: string, address: string, linkOf: (path: string) => string, after: number): Html => {
  const file = files.find((one) => one.path === path)
  const shown = file === undefined || isProtected(path)
    ? html`<p>There is no such file.</p>`
    : SandboxChanges.patchedShown(file, (from) => `${linkOf(path)}&after=${from}`, after)
  return html`<p class="fine"><a href="${address}">All files</a></p>
<h3>${path}</h3>
${shown}`
}

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const review = yield* Review.make
  // Pull requests of any other host have a page there.
  if (review === null) return

  const named = Effect.fnUntraced(function*({ params }: Page.Asked) {
    const repo = yield* Effect.mapError(Effect.fromOption(decodeRepo(`${params["owner"]}/${params["name"]}`)), () => noPull)
    const number = params["number"] ?? ""
    return NUMBER.test(number) ? { repo, number: Number(number) } : yield* noPull
  })

  const answered = <A, R>(self: Effect.Effect<A, Refused | RepoNotAccessible | SandboxNotFound | SourceHostError | StoreUnavailable, R>) =>
    Effect.catchTags(self, {
      SandboxNotFound: () => Effect.fail(noPull),
      RepoNotAccessible: () => Effect.fail(noPull),
      SourceHostError: ({ detail, retryable }) =>
        Effect.fail(retryable ? new Refused({ status: 502, title: "Not now", text: detail }) : noPull)
    })

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const { number, repo } = yield* named(asked)
    const found = yield* review.find(principalOf(member.visit), repo, number)
    const { pullRequest, sandbox } = found
    const { additions, baseRef, changedFiles, createdAt, deletions, headRef, headSha, state, title, updatedAt } = pullRequest
    const address = `/local/${repo}/pulls/${number}`
    const path = asked.url.searchParams.get("path")
    const after = yield* FilesAddress.afterOf(asked.url)
    const linkOf = (of: string) => `${address}?${new URLSearchParams({ path: of })}`
    const patched = yield* review.diff(found).pipe(
      Effect.flatMap((patch) => SandboxChanges.filesOf(patch, path)),
      Effect.catchTag("PullRequestRefused", (refused) => Effect.succeed(noDiff(refused, pullRequest)))
    )
    const diff = typeof patched === "string"
      ? html`<p>${patched}</p>`
      : path === null
      ? together(patched, address, linkOf, after)
      : alone(patched, path, address, linkOf, after)
    const changed = changedFiles === 1 ? "1 file" : `${changedFiles} files`
    const forms = html`<div class="actions">
<form method="post" action="${address}/merge">${member.csrf}<input type="hidden" name="sha" value="${headSha}">
<button>Merge into ${baseRef}</button></form>
<form method="post" action="${address}/close">${member.csrf}<button class="quiet danger">Close without merging</button></form>
</div>`
    const body = html`<p class="fine"><a href="/pulls">Pull requests</a> / ${repo}</p>
<h1>${title} <span class="fine">#${number}</span></h1>
${Page.told(asked, MESSAGES)}
<dl class="facts">
<dt>State</dt><dd>${pullBadge(pullRequest)}</dd>
<dt>Repository</dt><dd>${repo}</dd>
<dt>Branches</dt><dd><code>${headRef}</code> into <code>${baseRef}</code></dd>
<dt>Changes</dt><dd>${changed}, <span class="added-count">+${additions}</span> <span class="removed-count">−${deletions}</span></dd>
<dt>Sandbox</dt><dd><a href="/sandboxes/${sandbox.id}">${sandbox.title}</a></dd>
<dt>Opened</dt><dd>${moment(createdAt)}</dd>
<dt>Changed</dt><dd>${moment(updatedAt)}</dd>
</dl>
${state === "open" && forms}
<section aria-labelledby="diff-title"><h2 id="diff-title">Changes</h2>
${diff}</section>`
    return Page.show({ title: `${title} #${number}`, place: "pulls", body, scripts: ["viewed.js"] }, member)
  }, answered)

  const end = (doing: "merge" | "close"): Page.Handler<Page.Member> =>
    Effect.fnUntraced(function*(member, asked) {
      const { number, repo } = yield* named(asked)
      const sha = doing === "merge" ? yield* asked.form.one("sha") : ""
      if (doing === "merge" && !SHA.test(sha)) return yield* Refused.bad("The form names no commit.")
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

  yield* members("/local/:owner/:name/pulls/:number", { GET: get })
  yield* members("/local/:owner/:name/pulls/:number/merge", { POST: end("merge") })
  yield* members("/local/:owner/:name/pulls/:number/close", { POST: end("close") })
}))
