/** Finds pull requests, reads them with their checks and comments, and opens drafts. */
import { MAX_OPEN_PULLS, openPullOf, type SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { summarize } from "@slipway/domain/source/rules/CheckSummary"
import { type Checks, noChecks } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect, Schema } from "effect"
import * as Answers from "./Answers.ts"
import type * as ConditionalReads from "./ConditionalReads.ts"
import { type Access, type GitHubApi, type GitHubFailed, onStatus } from "./GitHubApi.ts"

const isRepoName = Schema.is(RepoName)

type Reads = ReturnType<typeof ConditionalReads.make>

const noPullRequest = (operation: string) => new SourceHostError({ operation, detail: "There is no such pull request.", retryable: false })

export const readPull = (api: GitHubApi, operation: string, access: Access, number: number) =>
  api.request(access, "GET", "/pulls/{number}", { number }).pipe(
    Effect.flatMap((answer) => api.decode(Answers.Pull, answer)),
    onStatus(404, () => Effect.fail(noPullRequest(operation)))
  )

/** The open pull request of the branch; `null`: none. */
export const findOpen = Effect.fnUntraced(function*(api: GitHubApi, operation: string, access: Access, headRef: string) {
  const fullName = `${access.owner}/${access.name}`.toLowerCase()
  const answer = yield* api.request(access, "GET", "/pulls", { state: "open", head: `${access.owner}:${headRef}`, per_page: 100 })
  // GitHub ignores filters that it does not understand.
  const found = (yield* api.decode(Answers.PullList, answer)).find(({ head }) =>
    head.ref === headRef && head.repo?.full_name.toLowerCase() === fullName
  )
  if (found === undefined) return null
  const pull = yield* readPull(api, operation, access, found.number)
  return pull.state === "open" ? Answers.toPullRequest(pull) : null
})

/** The pull request and the repository of its branch; `null`: there is no such pull request. */
export const readSource = (api: GitHubApi, access: Access, number: number) =>
  api.request(access, "GET", "/pulls/{number}", { number }).pipe(
    Effect.flatMap((answer) => api.decode(Answers.Pull, answer)),
    Effect.map((pull) => {
      const name = pull.head.repo?.full_name
      return { pullRequest: Answers.toPullRequest(pull), headRepo: isRepoName(name) ? name : null }
    }),
    onStatus(404, () => Effect.succeed(null))
  )

/** The newest open ones whose branch is in the repository itself. */
export const listOpen = Effect.fnUntraced(function*(api: GitHubApi, access: Access) {
  const fullName = `${access.owner}/${access.name}`.toLowerCase()
  const answer = yield* api.request(access, "GET", "/pulls", { state: "open", sort: "created", direction: "desc", per_page: 100 })
  return (yield* api.decode(Answers.PullList, answer))
    .filter(({ head }) => head.repo?.full_name.toLowerCase() === fullName)
    .slice(0, MAX_OPEN_PULLS)
    .map(({ head, number, title }) => openPullOf({ number, title, headRef: head.ref }))
})

/** The branch of exactly this name; `null`: there is none. */
export const readBranch = (api: GitHubApi, access: Access, name: string) =>
  api.request(access, "GET", "/branches/{branch}", { branch: name }).pipe(
    Effect.flatMap((answer) => api.decode(Answers.Branch, answer)),
    Effect.map((branch) => branch.name === name ? { headSha: branch.commit.sha, isProtected: branch.protected } : null),
    onStatus(404, () => Effect.succeed(null))
  )

/** The installation may not read checks, which differs from having none. */
const hidden: Checks = {
  ...noChecks,
  label: "Checks unknown",
  state: "error",
  error: "The GitHub App may not read checks: its installation lacks checks: read and actions: read."
}

const readChecks = Effect.fnUntraced(function*(reads: Reads, access: Access, headSha: string) {
  const may = (permission: string) => access.permissions[permission] !== undefined
  if (!may("checks") && !may("actions")) return hidden
  const [checkRuns, runs] = yield* Effect.all([
    may("checks") ? reads.all(access, `/commits/${headSha}/check-runs`, Answers.CheckRuns) : Effect.succeed([]),
    // An Enterprise host may have no Actions.
    may("actions")
      ? reads.all(access, "/actions/runs", Answers.WorkflowRuns, { head_sha: headSha }).pipe(onStatus(404, () => Effect.succeed([])))
      : Effect.succeed([])
  ], { concurrency: "unbounded" })
  const checks: Checks = summarize(
    runs.flatMap(({ workflow_runs }) => workflow_runs.map(Answers.toWorkflowRun)),
    checkRuns.flatMap(({ check_runs }) => check_runs.map(Answers.toCheckRun))
  )
  return checks
})

export const readDetails = Effect.fnUntraced(function*(reads: Reads, operation: string, access: Access, number: number) {
  const readPullAndChecks = Effect.gen(function*() {
    const pull = yield* reads.one(access, `/pulls/${number}`, Answers.Pull)
    return { pull, checks: yield* readChecks(reads, access, pull.head.sha) }
  })
  const [{ checks, pull }, ...comments] = yield* Effect.all([
    readPullAndChecks,
    reads.all(access, `/issues/${number}/comments`, Answers.Comments),
    reads.all(access, `/pulls/${number}/comments`, Answers.Comments)
  ], { concurrency: "unbounded" }).pipe(onStatus(404, () => Effect.fail(noPullRequest(operation))))
  return {
    pullRequest: Answers.toPullRequest(pull),
    checks,
    comments: comments.flat(2).map(Answers.toComment).sort((a, b) =>
      a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : a.id - b.id
    ),
    pending: pull.state === "open" && pull.mergeable === null
  }
})

/** Explains refusals whose GitHub text is not enough. */
const explain = Effect.fnUntraced(function*(api: GitHubApi, operation: string, access: Access, headRef: string, failure: GitHubFailed) {
  if (failure.detail.includes("pull request already exists")) {
    const open = yield* Effect.orElseSucceed(findOpen(api, operation, access, headRef), () => null)
    const detail = `There is an open pull request for the branch "${headRef}" already${open === null ? "" : `: ${open.url}`}.`
    return yield* new SourceHostError({ operation, detail, retryable: false })
  }
  if (/draft pull requests are not supported/iu.test(failure.detail)) {
    return yield* new SourceHostError({
      operation,
      detail: `The plan of ${access.owner} has no draft pull requests for private repositories. ` +
        "Make the repository public, or change to a plan that has them, such as GitHub Team.",
      retryable: false
    })
  }
  return yield* failure
})

export const openDraft = (
  api: GitHubApi,
  operation: string,
  access: Access,
  { baseRef, body, headRef, title }: Parameters<SourceHost["Service"]["openDraftPullRequest"]>[1]
) =>
  api.request(access, "POST", "/pulls", { title, body, base: baseRef, head: headRef, draft: true }).pipe(
    Effect.flatMap((answer) => api.decode(Answers.Pull, answer)),
    Effect.map(Answers.toPullRequest),
    onStatus(422, (failure) => explain(api, operation, access, headRef, failure))
  )

/** Whether the repository took it: a 404 or 422 concerns this name alone. */
const taken = <E>(self: Effect.Effect<unknown, E>) =>
  Effect.as(self, true).pipe(onStatus(404, () => Effect.succeed(false)), onStatus(422, () => Effect.succeed(false)))

/** Adding an unknown label would make it, so each is looked up. One unknown reviewer refuses all, so each is asked for alone. */
export const decorate = Effect.fnUntraced(function*(
  api: GitHubApi,
  access: Access,
  number: number,
  { labels, reviewers }: Parameters<SourceHost["Service"]["decoratePullRequest"]>[2]
) {
  const known = yield* Effect.filter(labels, (name) => taken(api.request(access, "GET", "/labels/{name}", { name })))
  if (known.length > 0) yield* api.request(access, "POST", "/issues/{issue_number}/labels", { issue_number: number, labels: known })
  const refused = yield* Effect.filter(reviewers, (name) => {
    const [owner = "", team] = name.split("/")
    // A repository's teams are those of its owner.
    if (team !== undefined && owner.toLowerCase() !== access.owner.toLowerCase()) return Effect.succeed(true)
    const asked = team === undefined ? { reviewers: [name] } : { team_reviewers: [team] }
    return Effect.map(
      taken(api.request(access, "POST", "/pulls/{pull_number}/requested_reviewers", { pull_number: number, ...asked })),
      (isTaken) => !isTaken
    )
  })
  return [...labels.filter((name) => !known.includes(name)), ...refused]
})

const READY = `mutation($id: ID!) { markPullRequestReadyForReview(input: { pullRequestId: $id }) { pullRequest { id } } }`
const Ready = Schema.Struct({ markPullRequestReadyForReview: Schema.Struct({ pullRequest: Schema.Struct({ id: Schema.String }) }) })

/** REST cannot end a draft. */
export const markReady = Effect.fnUntraced(function*(api: GitHubApi, operation: string, access: Access, number: number) {
  const pull = yield* readPull(api, operation, access, number)
  if (pull.state === "closed" || pull.draft !== true) return Answers.toPullRequest(pull)
  yield* api.mutate(access, READY, { id: pull.node_id }, Ready)
  return { ...Answers.toPullRequest(yield* readPull(api, operation, access, number)), draft: false }
})
