/** Finds pull requests, reads them with their checks and comments, and opens drafts. */
import { MAX_OPEN_PULLS, openPullOf, type SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { summarize } from "@slipway/domain/source/rules/CheckSummary"
import { isRefName, sameRepo } from "@slipway/domain/source/schema/Naming"
import { onStatus, type RestFailed } from "@slipway/rest-host/RestApi"
import { Effect } from "effect"
import * as Answers from "./Answers.ts"
import type { ForgejoApi, Place } from "./ForgejoApi.ts"
import * as Reviews from "./Reviews.ts"

const noPullRequest = (operation: string) => new SourceHostError({ operation, detail: "There is no such pull request.", retryable: false })

/** A 404 below a pull request. */
export const unknownPull = (api: ForgejoApi, operation: string, place: Place) =>
  onStatus(404, () => api.absent(place, Effect.fail(noPullRequest(operation))))

export const readPull = (api: ForgejoApi, operation: string, place: Place, number: number) =>
  api.get(place, `/pulls/${number}`, Answers.Pull).pipe(unknownPull(api, operation, place))

/** Whether its branch is in the repository itself. */
const isOwn = (pull: Answers.Pull): boolean => {
  const [head, base] = [Answers.headRepoOf(pull), pull.base.repo?.full_name]
  return head !== null && base !== undefined && sameRepo(head, base)
}

/** The open pull request of the branch; `null`: none. The API has no filter for branches. */
export const findOpen = Effect.fnUntraced(function*(api: ForgejoApi, place: Place, headRef: string) {
  const pulls = yield* api.all(place, "/pulls", Answers.Pulls, { state: "open", sort: "oldest" }).pipe(
    onStatus(404, () => api.absent(place, Effect.succeed([])))
  )
  const found = pulls.find((pull) => pull.state === "open" && pull.head.label === headRef && isOwn(pull))
  return found === undefined ? null : Answers.toPullRequest(found)
})

/** The pull request and the repository of its branch; `null`: there is no such pull request. */
export const readSource = (api: ForgejoApi, place: Place, number: number) =>
  api.get(place, `/pulls/${number}`, Answers.Pull).pipe(
    Effect.map((pull) => ({ pullRequest: Answers.toPullRequest(pull), headRepo: Answers.headRepoOf(pull) })),
    onStatus(404, () => api.absent(place, Effect.succeed(null)))
  )

/** Pages that are read for a list to choose from: most pull requests may come from forks. */
const MAXIMUM_LISTED_PAGES = 4

/** The newest open ones whose branch is in the repository itself. */
export const listOpen = (api: ForgejoApi, place: Place) =>
  api.some(
    place,
    "/pulls",
    Answers.Pulls,
    { state: "open" },
    (found, page) => page >= MAXIMUM_LISTED_PAGES || found.filter(isOwn).length >= MAX_OPEN_PULLS
  ).pipe(
    Effect.map((pulls) =>
      pulls.filter(isOwn).sort((a, b) => b.number - a.number).slice(0, MAX_OPEN_PULLS)
        .map((pull) => openPullOf(Answers.toPullRequest(pull)))
    ),
    onStatus(404, () => api.absent(place, Effect.succeed([])))
  )

/** The branch with exactly this name; `null`: the host has no such branch. An empty name would ask for all branches. */
export const readBranch = (api: ForgejoApi, place: Place, name: string) =>
  name === "" || !isRefName(name)
    ? Effect.succeed(null)
    : api.get(place, `/branches/${name.split("/").map(encodeURIComponent).join("/")}`, Answers.Branch).pipe(
      Effect.map((branch) => branch.name === name ? { headSha: branch.commit.id, isProtected: branch.protected } : null),
      onStatus(404, () => api.absent(place, Effect.succeed(null)))
    )

/** The newest status of each context, in the order of contexts. */
export const statusesOf = (api: ForgejoApi, place: Place, sha: string) =>
  Effect.map(
    api.allOf(place, `/commits/${sha}/status`, Answers.Statuses, ({ statuses }) => statuses ?? []),
    (statuses) => statuses.sort((a, b) => a.context < b.context ? -1 : 1)
  )

/** The newest run of each workflow and event. */
const newestRuns = (runs: ReadonlyArray<Answers.Run>): ReadonlyArray<Answers.Run> => {
  const newest = new Map<string, Answers.Run>()
  for (const run of runs) {
    const key = JSON.stringify([run.workflow_id ?? run.path ?? run.name, run.event])
    if ((newest.get(key)?.id ?? -1) < run.id) newest.set(key, run)
  }
  return [...newest.values()].sort((a, b) => a.id - b.id)
}

/** The runs of Actions for a commit. Servers without Actions, or of earlier versions, have no list. Statuses tell of the jobs as well. */
export const runsOf = (api: ForgejoApi, place: Place, sha: string) =>
  api.counted(place, "/actions/runs", Answers.Runs, { head_sha: sha }, ({ workflow_runs: runs }) => runs ?? []).pipe(
    Effect.map((runs) => newestRuns(runs.filter(({ head_sha }) => head_sha === sha))),
    onStatus(404, () => Effect.succeed([])),
    onStatus(403, () => Effect.succeed([]))
  )

const readChecks = Effect.fnUntraced(function*(api: ForgejoApi, place: Place, sha: string) {
  const [statuses, runs] = yield* Effect.all([statusesOf(api, place, sha), runsOf(api, place, sha)], { concurrency: "unbounded" })
  return summarize(runs.map(Answers.toWorkflowRun), statuses.map((status) => Answers.toCheckRun(status, api.webUrl)))
})

export const readDetails = Effect.fnUntraced(function*(api: ForgejoApi, operation: string, place: Place, number: number) {
  const pull = yield* readPull(api, operation, place, number)
  const [checks, comments, reviewed] = yield* Effect.all([
    readChecks(api, place, pull.head.sha),
    api.get(place, `/issues/${number}/comments`, Answers.IssueComments),
    Reviews.commentsOf(api, place, number)
  ], { concurrency: "unbounded" }).pipe(unknownPull(api, operation, place))
  return {
    pullRequest: Answers.toPullRequest(pull),
    checks,
    comments: [
      ...(comments ?? []).map(Answers.toComment),
      ...reviewed.map(({ comment }) => Answers.toComment({ ...comment, line: Answers.lineOf(comment) }))
    ].sort((a, b) => a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : a.id - b.id),
    // Whether it can be merged is not said while it is computed.
    pending: false
  }
})

/** Explains refusals whose text is not enough. */
const explain = Effect.fnUntraced(function*(api: ForgejoApi, operation: string, place: Place, headRef: string, failure: RestFailed) {
  if (!failure.detail.includes("already exists")) return yield* failure
  const open = yield* Effect.orElseSucceed(findOpen(api, place, headRef), () => null)
  const detail = `There is an open pull request for the branch "${headRef}" already${open === null ? "" : `: ${open.url}`}.`
  return yield* new SourceHostError({ operation, detail, retryable: false })
})

export const openDraft = (
  api: ForgejoApi,
  operation: string,
  place: Place,
  { baseRef, body, headRef, title }: Parameters<SourceHost["Service"]["openDraftPullRequest"]>[1]
) =>
  api.request(place, "/pulls", { method: "POST", body: { title: Answers.draftTitle(title), body, base: baseRef, head: headRef } }).pipe(
    Effect.flatMap((answer) => api.decode(Answers.Pull, answer)),
    Effect.map(Answers.toPullRequest),
    onStatus(409, (failure) => explain(api, operation, place, headRef, failure)),
    // A branch that is missing.
    onStatus(404, (failure) => api.absent(place, Effect.fail(failure)))
  )

const labelIds = Effect.fnUntraced(function*(api: ForgejoApi, place: Place, names: ReadonlyArray<string>) {
  const same = (name: string) => ({ name: other }: { readonly name: string }) => other.toLowerCase() === name.toLowerCase()
  const own = yield* api.all(place, "/labels", Answers.Labels).pipe(onStatus(404, () => api.absent(place, Effect.succeed([]))))
  const isComplete = names.every((name) => own.some(same(name)))
  const shared = isComplete ? [] : yield* api.ofOwner(place, "/labels", Answers.Labels)
  const known = [...own, ...shared]
  return names.flatMap((name) => {
    const found = known.find((label) => label.name === name) ?? known.find(same(name))
    return found === undefined ? [] : [{ name, id: found.id }]
  })
})

/** An unknown reviewer refuses the whole request, so each is asked for alone. Returns whether the server took it. */
const askReview = (api: ForgejoApi, place: Place, number: number, name: string) => {
  const [owner = "", team] = name.split("/")
  // A repository's teams are those of its owner.
  if (team !== undefined && owner.toLowerCase() !== place.name.split("/")[0]?.toLowerCase()) return Effect.succeed(false)
  const body = team === undefined ? { reviewers: [name] } : { team_reviewers: [team] }
  return Effect.as(api.request(place, `/pulls/${number}/requested_reviewers`, { method: "POST", body }), true).pipe(
    onStatus(404, () => api.absent(place, Effect.succeed(false))),
    onStatus(422, () => Effect.succeed(false))
  )
}

export const decorate = Effect.fnUntraced(function*(
  api: ForgejoApi,
  operation: string,
  place: Place,
  number: number,
  { labels, reviewers }: Parameters<SourceHost["Service"]["decoratePullRequest"]>[2]
) {
  const known = labels.length === 0 ? [] : yield* labelIds(api, place, labels)
  if (known.length > 0) {
    yield* api.request(place, `/issues/${number}/labels`, { method: "POST", body: { labels: known.map(({ id }) => id) } }).pipe(
      unknownPull(api, operation, place)
    )
  }
  const refused = yield* Effect.filter(reviewers, (name) => Effect.map(askReview(api, place, number, name), (isTaken) => !isTaken))
  return [...labels.filter((name) => known.every((label) => label.name !== name)), ...refused]
})

/** Removes the prefix of the title. Which prefixes make a draft is the server's choice, so its answer decides. */
export const markReady = Effect.fnUntraced(function*(api: ForgejoApi, operation: string, place: Place, number: number) {
  const pull = yield* readPull(api, operation, place, number)
  if (pull.state === "closed" || !pull.draft) return Answers.toPullRequest(pull)
  const title = Answers.readyTitle(pull.title)
  const changed = title === "" || title === pull.title
    ? pull
    : yield* Effect.flatMap(
      api.request(place, `/pulls/${number}`, { method: "PATCH", body: { title } }),
      (answer) => api.decode(Answers.Pull, answer)
    )
  if (!changed.draft) return Answers.toPullRequest(changed)
  const detail = `${api.name} still takes it for a draft because of its title. Remove the prefix there: ${pull.html_url}`
  return yield* new SourceHostError({ operation, detail, retryable: false })
})
