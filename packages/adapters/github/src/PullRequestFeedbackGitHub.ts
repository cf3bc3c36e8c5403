/** `PullRequestFeedback` on GitHub as a GitHub App. Reads are conditional: what did not change costs no rate limit. */
import {
  type FailingCheck,
  type FeedbackItem,
  type HeadChecks,
  MAX_ANNOTATIONS,
  MAX_FAILING_CHECKS,
  MAX_FEEDBACK_TEXT,
  MAX_REPLY,
  PullRequestFeedback,
  type ReadOptions
} from "@slipway/domain/source/ports/PullRequestFeedback"
import { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { stateOf } from "@slipway/domain/source/rules/CheckSummary"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { DateTime, Effect, Layer, Schema, SchemaGetter } from "effect"
import * as Answers from "./Answers.ts"
import * as ConditionalReads from "./ConditionalReads.ts"
import * as GitHubApi from "./GitHubApi.ts"
import { type Access, onStatus, type Permissions } from "./GitHubApi.ts"
import { logTail } from "./LogTail.ts"
import { type HeldTokens, withHeldToken, withToken } from "./RepositoryTokens.ts"
import { within } from "./Within.ts"

const WRITE: Permissions = { metadata: "read", pull_requests: "write" }

/** The beginning of a text. A substring would keep the whole string in memory. */
const Beginning = Schema.String.pipe(Schema.decodeTo(Schema.String, {
  decode: SchemaGetter.transform((text) =>
    text.length <= MAX_FEEDBACK_TEXT ? text : Buffer.from(text.slice(0, MAX_FEEDBACK_TEXT).toWellFormed()).toString()
  ),
  encode: SchemaGetter.passthrough()
}))
const Body = Schema.optionalKey(Schema.NullOr(Beginning))
const User = Schema.NullOr(Schema.Struct({ id: Counter, login: Schema.String, type: Schema.optionalKey(Schema.String) }))
const Instant = Schema.DateTimeUtcFromString

const Reviews = Schema.Array(Schema.Struct({
  id: Counter,
  user: User,
  body: Body,
  html_url: Schema.String,
  /** Absent: it was not submitted. */
  submitted_at: Schema.optionalKey(Schema.NullOr(Instant))
}))
const ReviewComments = Schema.Array(Schema.Struct({
  id: Counter,
  user: User,
  body: Body,
  html_url: Schema.String,
  path: Schema.String,
  line: Schema.optionalKey(Schema.NullOr(Counter)),
  original_line: Schema.optionalKey(Schema.NullOr(Counter)),
  pull_request_review_id: Schema.optionalKey(Schema.NullOr(Counter)),
  created_at: Instant,
  updated_at: Instant
}))
const IssueComments = Schema.Array(Schema.Struct({
  id: Counter,
  user: User,
  body: Body,
  html_url: Schema.String,
  created_at: Instant,
  updated_at: Instant
}))
const CheckRuns = Schema.Struct({
  check_runs: Schema.Array(Schema.Struct({
    id: Counter,
    name: Schema.String,
    status: Schema.String,
    conclusion: Schema.NullOr(Schema.String),
    completed_at: Schema.NullOr(Schema.String),
    html_url: Schema.NullOr(Schema.String),
    output: Schema.optionalKey(Schema.Struct({ title: Body, summary: Body })),
    app: Schema.optionalKey(Schema.NullOr(Schema.Struct({ slug: Schema.optionalKey(Schema.String) })))
  }))
})
type Run = (typeof CheckRuns.Type)["check_runs"][number]
const Annotations = Schema.Array(Schema.Struct({
  path: Schema.String,
  start_line: Schema.optionalKey(Schema.NullOr(Counter)),
  message: Schema.optionalKey(Schema.NullOr(Beginning))
}))
const Written = Schema.Struct({ html_url: Schema.String })

/** Deleted accounts have no user. */
const authorOf = (user: typeof User.Type): FeedbackItem["author"] =>
  user === null
    ? { id: "", login: "ghost", isBot: false }
    : { id: String(user.id), login: user.login, isBot: user.type === "Bot" || user.login.endsWith("[bot]") }

interface Reading {
  readonly api: GitHubApi.GitHubApi
  readonly reads: ReturnType<typeof ConditionalReads.make>
  readonly access: Access
}

const readItems = Effect.fnUntraced(function*({ access, reads }: Reading, number: number, since: DateTime.Utc) {
  const changed = { since: DateTime.formatIso(DateTime.removeTime(since)) }
  const [reviewPages, codePages, pages] = yield* Effect.all([
    reads.all(access, `/pulls/${number}/reviews`, Reviews),
    reads.all(access, `/pulls/${number}/comments`, ReviewComments, changed),
    reads.all(access, `/issues/${number}/comments`, IssueComments, changed)
  ], { concurrency: "unbounded" })
  const reviews = reviewPages.flat()
  const submitted = new Map(reviews.map(({ id, submitted_at: at }) => [id, at]))
  const items: Array<FeedbackItem> = []
  for (const { body, html_url: url, id, submitted_at: at, user } of reviews) {
    if (at == null || (body ?? "").trim() === "") continue
    items.push({
      id: `review:${id}`,
      kind: "review",
      author: authorOf(user),
      body: body ?? "",
      path: null,
      line: null,
      url,
      at,
      updatedAt: at
    })
  }
  for (const comment of codePages.flat()) {
    const review = comment.pull_request_review_id
    const shown = review == null ? undefined : submitted.get(review)
    // Comments of a review that was not submitted are still being written.
    if (review != null && submitted.has(review) && shown == null) continue
    items.push({
      id: `review_comment:${comment.id}`,
      kind: "review_comment",
      author: authorOf(comment.user),
      body: comment.body ?? "",
      path: comment.path,
      line: comment.line ?? comment.original_line ?? null,
      url: comment.html_url,
      at: shown ?? comment.created_at,
      updatedAt: comment.updated_at
    })
  }
  for (const { body, created_at: at, html_url: url, id, updated_at: updatedAt, user } of pages.flat()) {
    items.push({
      id: `comment:${id}`,
      kind: "comment",
      author: authorOf(user),
      body: body ?? "",
      path: null,
      line: null,
      url,
      at,
      updatedAt
    })
  }
  return items.sort((a, b) => DateTime.Order(a.at, b.at) || (a.id < b.id ? -1 : 1))
})

const readFailing = Effect.fnUntraced(function*({ access, api }: Reading, run: Run) {
  const annotations = yield* api.request(access, "GET", "/check-runs/{id}/annotations", { id: run.id, per_page: MAX_ANNOTATIONS }).pipe(
    Effect.flatMap((answer) => api.decode(Annotations, answer)),
    onStatus(404, () => Effect.succeed([]))
  )
  // The check run of a job has its id. Logs are gone after some weeks, and other programs' checks have none.
  const place = run.app?.slug !== "github-actions" || access.permissions["actions"] === undefined
    ? null
    : yield* Effect.catchTag(
      api.place(access, "/actions/jobs/{id}/logs", { id: run.id }),
      "GitHubFailed",
      (failure) => failure.retryable ? Effect.fail(failure) : Effect.succeed(null)
    )
  const failing: FailingCheck = {
    name: run.name,
    url: run.html_url ?? "",
    summary: [run.output?.title, run.output?.summary].flatMap((text) => text == null || text === "" ? [] : [text]).join("\n")
      .slice(0, MAX_FEEDBACK_TEXT).toWellFormed(),
    annotations: annotations.slice(0, MAX_ANNOTATIONS).map(({ message, path, start_line: line = null }) => ({
      path,
      line,
      message: message ?? ""
    })),
    log: place === null ? "" : yield* logTail(place)
  }
  return failing
})

const unknown = (headSha: string): HeadChecks => ({ headSha, state: "none", at: null, failing: [] })
const instantOf = (text: string | null) => text === null ? null : DateTime.make(text)

const readChecks = Effect.fnUntraced(function*(reading: Reading, headSha: string, known: ReadonlySet<string>) {
  const { access, reads } = reading
  if (access.permissions["checks"] === undefined) return unknown(headSha)
  const [checkPages, workflowPages] = yield* Effect.all([
    reads.all(access, `/commits/${headSha}/check-runs`, CheckRuns),
    access.permissions["actions"] === undefined
      ? Effect.succeed([])
      : reads.all(access, "/actions/runs", Answers.WorkflowRuns, { head_sha: headSha }).pipe(onStatus(404, () => Effect.succeed([])))
  ], { concurrency: "unbounded" })
  const runs = checkPages.flatMap(({ check_runs }) => check_runs)
  const workflows = workflowPages.flatMap(({ workflow_runs }) => workflow_runs.map(Answers.toWorkflowRun))
  const states = [
    ...runs.map(({ conclusion, status }) => stateOf({ status, ...(conclusion === null ? {} : { conclusion }) })),
    ...workflows.map(stateOf)
  ]
  const ends = [...runs.map((run) => instantOf(run.completed_at)), ...workflows.map(({ updatedAt }) => instantOf(updatedAt))].flatMap((
    at
  ) => at === null || at._tag === "None" ? [] : [at.value])
  const at = ends.length === 0 ? null : ends.reduce(DateTime.max)
  const state = states.length === 0
    ? "none" as const
    : states.includes("pending")
    ? "running" as const
    : states.includes("failure")
    ? "failed" as const
    : "passed" as const
  const failed = runs.filter((run) =>
    stateOf({ status: run.status, ...(run.conclusion === null ? {} : { conclusion: run.conclusion }) }) === "failure"
  )
    .sort((a, b) => a.name < b.name ? -1 : 1).slice(0, MAX_FAILING_CHECKS)
  const failing = state !== "failed" || known.has(headSha)
    ? []
    : failed.length > 0
    ? yield* Effect.forEach(failed, (run) => readFailing(reading, run), { concurrency: 2 })
    // A workflow that could not begin has no check runs.
    : workflows.filter((run) => stateOf(run) === "failure").slice(0, MAX_FAILING_CHECKS)
      .map(({ name, url }): FailingCheck => ({ name, url, summary: "", annotations: [], log: "" }))
  const checks: HeadChecks = { headSha, state, at, failing }
  return checks
})

const read = Effect.fnUntraced(function*(reading: Reading, number: number, { checks, knownChecks, since }: ReadOptions) {
  const pull = yield* reading.reads.one(reading.access, `/pulls/${number}`, Answers.Pull)
  const isOpen = pull.state === "open"
  return {
    isOpen,
    url: pull.html_url,
    headRef: pull.head.ref,
    items: isOpen ? yield* readItems(reading, number, since) : [],
    checks: !checks || !isOpen ? null : yield* readChecks(reading, pull.head.sha, knownChecks)
  }
})

/** Not shown. A comment of a person that quotes it is not ours: ours is by a bot. */
const marker = (key: string): string => `<!-- slipway:${key.replaceAll(/[^\w:./-]/gu, "_")} -->`

const reply = Effect.fnUntraced(function*({ access, api, reads }: Reading, number: number, key: string, text: string) {
  const pages = yield* reads.all(access, `/issues/${number}/comments`, IssueComments)
  const own = pages.flat().find(({ body, user }) => authorOf(user).isBot && body?.endsWith(marker(key)) === true)
  const body = `${text.slice(0, MAX_REPLY).toWellFormed()}\n\n${marker(key)}`
  if (own !== undefined && own.body === body) return own.html_url
  const answer = own === undefined
    ? yield* api.request(access, "POST", "/issues/{number}/comments", { number, body })
    : yield* api.request(access, "PATCH", "/issues/comments/{id}", { id: own.id, body })
  return (yield* api.decode(Written, answer)).html_url
})

const noPullRequest = (operation: string) => () =>
  Effect.fail(new SourceHostError({ operation, detail: "There is no such pull request.", retryable: false }))

const make = Effect.fnUntraced(function*(options: GitHubApi.Options) {
  const api = yield* GitHubApi.make(options)
  const reads = ConditionalReads.make(api)
  const held: HeldTokens = new Map()
  return PullRequestFeedback.of({
    read: Effect.fn("PullRequestFeedback.read")((repo: RepoName, number: number, options: ReadOptions) => {
      const operation = "read the feedback on the pull request"
      return within(
        operation,
        repo,
        withHeldToken(
          api,
          held,
          repo,
          (access) => read({ api, reads, access }, number, options).pipe(onStatus(404, noPullRequest(operation)))
        )
      )
    }),
    reply: Effect.fn("PullRequestFeedback.reply")((repo: RepoName, number: number, key: string, text: string) => {
      const operation = "reply on the pull request"
      return within(
        operation,
        repo,
        withToken(
          api,
          repo,
          WRITE,
          (access) => reply({ api, reads, access }, number, key, text).pipe(onStatus(404, noPullRequest(operation)))
        )
      )
    })
  })
})

/** Fails if the App's key cannot be parsed. */
export const layer = (options: GitHubApi.Options): Layer.Layer<PullRequestFeedback, SourceHostError> =>
  Layer.effect(PullRequestFeedback, make(options))
