/** `PullRequestFeedback` on Forgejo and Gitea. The service's own comments are those of the token's account. */
import {
  type FailingCheck,
  type FeedbackItem,
  type HeadChecks,
  MAX_FAILING_CHECKS,
  MAX_FEEDBACK_TEXT,
  MAX_LOG_TAIL,
  MAX_REPLY,
  PullRequestFeedback,
  type ReadOptions
} from "@slipway/domain/source/ports/PullRequestFeedback"
import type { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { stateOf } from "@slipway/domain/source/rules/CheckSummary"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { within } from "@slipway/rest-host/Within"
import { DateTime, Effect, Layer, Schema } from "effect"
import * as Answers from "./Answers.ts"
import * as ForgejoApi from "./ForgejoApi.ts"
import { type Place, placeOf } from "./ForgejoApi.ts"
import * as PullRequests from "./PullRequests.ts"
import * as Reviews from "./Reviews.ts"

type Api = ForgejoApi.ForgejoApi

/** Bytes of a log that are read of a server that does not answer with its end alone. */
const MAX_WHOLE_LOG = 1024 * 1024

const Written = Schema.Struct({ html_url: Schema.String })

const readItems = Effect.fnUntraced(function*(api: Api, place: Place, number: number, since: DateTime.Utc) {
  const changed = { since: DateTime.formatIso(DateTime.removeTime(since)) }
  const own = yield* api.ownId(place)
  const [reviews, comments] = yield* Effect.all([
    Reviews.submittedOf(api, place, number),
    api.get(place, `/issues/${number}/comments`, Answers.IssueComments, changed)
  ], { concurrency: "unbounded" })
  const code = yield* Reviews.commentsIn(api, place, number, reviews)
  const items: Array<FeedbackItem> = []
  for (const { body, html_url: url, id, submitted_at: at, user } of reviews) {
    if ((body ?? "").trim() === "") continue
    const author = Answers.authorOf(user, own)
    items.push({ id: `review:${id}`, kind: "review", author, body: body ?? "", path: null, line: null, url, at, updatedAt: at })
  }
  for (const { comment, review } of code) {
    items.push({
      id: `review_comment:${comment.id}`,
      kind: "review_comment",
      author: Answers.authorOf(comment.user, own),
      body: comment.body ?? "",
      path: comment.path,
      line: Answers.lineOf(comment),
      url: comment.html_url,
      // A reply on a line belongs to the review, and is later.
      at: DateTime.max(comment.created_at, review.submitted_at),
      updatedAt: DateTime.max(comment.updated_at, review.submitted_at)
    })
  }
  for (const { body, created_at: at, html_url: url, id, updated_at: updatedAt, user } of comments ?? []) {
    const author = Answers.authorOf(user, own)
    items.push({ id: `comment:${id}`, kind: "comment", author, body: body ?? "", path: null, line: null, url, at, updatedAt })
  }
  return items.sort((a, b) => DateTime.Order(a.at, b.at) || (a.id < b.id ? -1 : 1))
})

/** The jobs of these runs by the path of their pages, which statuses name. Forgejo lists no jobs, and its runs have no such page. */
const jobsOf = Effect.fnUntraced(function*(api: Api, place: Place, runs: ReadonlyArray<Answers.Run>) {
  const lists = yield* Effect.forEach(
    runs.filter(({ html_url: url }) => (url ?? "") !== ""),
    ({ id }) => api.counted(place, `/actions/runs/${id}/jobs`, Answers.Jobs, {}, ({ jobs }) => jobs ?? []).pipe(withoutLogs([])),
    { concurrency: 2 }
  )
  return new Map(lists.flat().map(({ html_url: url, id }) => [URL.parse(url ?? "", api.webUrl)?.pathname ?? "", id]))
})

/** Logs may be missing, deleted or hidden, and then the check is reported without. An outage is no missing log. */
const withoutLogs = <B>(otherwise: B) => <A>(self: Effect.Effect<A, ForgejoApi.Failure>) =>
  Effect.catchTag(self, "RestFailed", (failure) => failure.retryable ? Effect.fail(failure) : Effect.succeed(otherwise))

const textOf = (data: unknown): string => typeof data === "string" ? data : data === undefined ? "" : JSON.stringify(data)

/** The end of the log of a job. */
const logOf = (api: Api, place: Place, job: number) =>
  api.request(place, `/actions/jobs/${job}/logs`, {
    method: "GET",
    headers: { range: `bytes=-${MAX_LOG_TAIL}` },
    answerBytes: MAX_WHOLE_LOG
  }).pipe(
    // A character that is cut in two at the beginning is dropped, because it becomes longer as text.
    Effect.map(({ data }) => Buffer.from(textOf(data)).subarray(-MAX_LOG_TAIL).toString().replace(/^\ufffd+/u, "")),
    withoutLogs("")
  )

const readFailing = Effect.fnUntraced(function*(
  api: Api,
  place: Place,
  failed: ReadonlyArray<Answers.Status>,
  runs: ReadonlyArray<Answers.Run>
) {
  const jobs = yield* jobsOf(api, place, runs)
  return yield* Effect.forEach(failed, (status) => {
    const url = Answers.addressOf(status.target_url ?? "", api.webUrl)
    const job = url === "" ? undefined : jobs.get(new URL(url).pathname)
    return Effect.map(job === undefined ? Effect.succeed("") : logOf(api, place, job), (log): FailingCheck => ({
      name: status.context,
      url,
      summary: (status.description ?? "").slice(0, MAX_FEEDBACK_TEXT).toWellFormed(),
      annotations: [],
      log
    }))
  }, { concurrency: 2 })
})

const readChecks = Effect.fnUntraced(function*(api: Api, place: Place, headSha: string, known: ReadonlySet<string>) {
  const [statuses, answered] = yield* Effect.all([
    PullRequests.statusesOf(api, place, headSha),
    PullRequests.runsOf(api, place, headSha)
  ], { concurrency: "unbounded" })
  const checks = statuses.map((status) => ({ status, run: Answers.toCheckRun(status, api.webUrl) }))
  const runs = answered.map((answer) => ({ answer, run: Answers.toWorkflowRun(answer) }))
  const states = [...checks, ...runs].map(({ run }) => stateOf(run))
  const ends = [...checks.map(({ run }) => run.completedAt ?? ""), ...runs.map(({ run }) => run.updatedAt)]
    .flatMap((text) => DateTime.make(text).pipe((at) => at._tag === "None" ? [] : [at.value]))
  const state = states.length === 0
    ? "none" as const
    : states.includes("pending")
    ? "running" as const
    : states.includes("failure")
    ? "failed" as const
    : "passed" as const
  const isFailed = ({ run }: { readonly run: Parameters<typeof stateOf>[0] }) => stateOf(run) === "failure"
  const failed = checks.filter(isFailed).slice(0, MAX_FAILING_CHECKS)
  const failedRuns = runs.filter(isFailed).slice(0, MAX_FAILING_CHECKS)
  const failing = state !== "failed" || known.has(headSha)
    ? []
    : failed.length > 0
    ? yield* readFailing(api, place, failed.map(({ status }) => status), failedRuns.map(({ answer }) => answer))
    // A workflow that could not begin has no statuses.
    : failedRuns.map(({ run }): FailingCheck => ({ name: run.name, url: run.url, summary: "", annotations: [], log: "" }))
  const found: HeadChecks = { headSha, state, at: ends.length === 0 ? null : ends.reduce(DateTime.max), failing }
  return found
})

const read = Effect.fnUntraced(function*(
  api: Api,
  operation: string,
  place: Place,
  number: number,
  { checks, knownChecks, since }: ReadOptions
) {
  const pull = Answers.toPullRequest(yield* PullRequests.readPull(api, operation, place, number))
  const isOpen = pull.state === "open"
  return {
    isOpen,
    url: pull.url,
    headRef: pull.headRef,
    items: isOpen ? yield* readItems(api, place, number, since) : [],
    checks: !checks || !isOpen ? null : yield* readChecks(api, place, pull.headSha, knownChecks)
  }
})

/** Not shown. A comment of a person that quotes it is not ours: ours is by the token's account. */
const marker = (key: string): string => `<!-- slipway:${key.replaceAll(/[^\w:./-]/gu, "_")} -->`

const reply = Effect.fnUntraced(function*(api: Api, operation: string, place: Place, number: number, key: string, text: string) {
  const self = yield* api.get(place, `/issues/${number}/comments`, Answers.IssueComments).pipe(
    PullRequests.unknownPull(api, operation, place)
  )
  const account = yield* api.ownId(place)
  const own = (self ?? []).find(({ body, user }) => user?.id === account && body?.endsWith(marker(key)) === true)
  const body = `${text.slice(0, MAX_REPLY).toWellFormed()}\n\n${marker(key)}`
  if (own !== undefined && own.body === body) return own.html_url
  const answer = own === undefined
    ? yield* api.request(place, `/issues/${number}/comments`, { method: "POST", body: { body } })
    : yield* api.request(place, `/issues/comments/${own.id}`, { method: "PATCH", body: { body } })
  return (yield* api.decode(Written, answer)).html_url
})

const make = Effect.fnUntraced(function*(options: ForgejoApi.Options) {
  const api = yield* ForgejoApi.make(options)
  return PullRequestFeedback.of({
    read: Effect.fn("PullRequestFeedback.read")((repo: RepoName, number: number, options: ReadOptions) => {
      const operation = "read the feedback on the pull request"
      const place = placeOf(repo)
      return within(operation, repo, read(api, operation, place, number, options).pipe(PullRequests.unknownPull(api, operation, place)))
    }),
    reply: Effect.fn("PullRequestFeedback.reply")((repo: RepoName, number: number, key: string, text: string) => {
      const operation = "reply on the pull request"
      return within(operation, repo, reply(api, operation, placeOf(repo), number, key, text))
    })
  })
})

/** Fails if the address cannot be used. */
export const layer = (options: ForgejoApi.Options): Layer.Layer<PullRequestFeedback, SourceHostError> =>
  Layer.effect(PullRequestFeedback, make(options))
