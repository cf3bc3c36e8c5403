/**
 * `PullRequestFeedback` on GitLab. Approvals and requests for changes have no text there, so all items are comments. Reads are conditional:
 * what did not change is not sent again.
 */
import {
  type FailingCheck,
  type FeedbackItem,
  type HeadChecks,
  MAX_FAILING_CHECKS,
  MAX_FEEDBACK_TEXT,
  MAX_REPLY,
  PullRequestFeedback,
  type ReadOptions
} from "@slipway/domain/source/ports/PullRequestFeedback"
import type { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { stateOf } from "@slipway/domain/source/rules/CheckSummary"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { within } from "@slipway/rest-host/Within"
import { DateTime, Effect, Layer, Schema } from "effect"
import * as Answers from "./Answers.ts"
import { isOpen, type MergeRequest } from "./Answers.ts"
import * as Checks from "./Checks.ts"
import * as GitLabApi from "./GitLabApi.ts"
import { jobLog } from "./JobLog.ts"
import { orNoMergeRequest } from "./MergeRequests.ts"
import type { Access } from "./Projects.ts"
import * as Projects from "./Projects.ts"
import * as Reads from "./Reads.ts"
import { withoutQuickActions } from "./Text.ts"

interface Reading {
  readonly api: GitLabApi.GitLabApi
  readonly reads: Reads.ConditionalReads
  readonly access: Access
}

const place = ({ access }: Reading, number: number): string => `/projects/${access.id}/merge_requests/${number}`

const Notes = Answers.notes(MAX_FEEDBACK_TEXT)

/** The newest comments of people and programs. */
const readNotes = (reading: Reading, number: number) =>
  Effect.map(
    reading.reads.all({
      path: `${place(reading, number)}/notes`,
      query: { activity_filter: "only_comments", order_by: "updated_at", sort: "desc" },
      schema: Notes,
      token: reading.access.token
    }),
    (notes) => notes.filter(({ system }) => !system)
  )

const readItems = Effect.fnUntraced(function*(reading: Reading, mergeRequest: MergeRequest, since: DateTime.Utc) {
  const own = yield* reading.api.own(reading.access.token)
  const notes = yield* readNotes(reading, mergeRequest.iid)
  return notes.map((note): FeedbackItem => {
    const { line, path } = Answers.placeOf(note)
    return {
      id: `note:${note.id}`,
      kind: path === null ? "comment" : "review_comment",
      author: {
        id: String(note.author.id),
        login: note.author.username,
        // The token may be a person's.
        isBot: note.author.id === own.id || Answers.isTokenAccount(note.author.username)
      },
      body: note.body,
      path,
      line,
      url: Answers.noteUrl(mergeRequest.web_url, note.id),
      at: Answers.instantOf(note.created_at),
      updatedAt: Answers.instantOf(note.updated_at)
    }
  })
    .filter(({ updatedAt }) => DateTime.isGreaterThanOrEqualTo(updatedAt, since))
    .sort((a, b) => DateTime.Order(a.at, b.at) || (a.id < b.id ? -1 : 1))
})

/** The log of a job. Statuses of other programs have other addresses, and no log. */
const logOf = ({ access: { id, token }, api }: Reading, status: Checks.Status) =>
  /\/-\/(?:jobs|builds)\/\d+$|\/builds\/\d+$/u.test(status.target_url ?? "") && status.target_url?.startsWith(`${api.url}/`) === true
    ? jobLog(new URL(`${api.host.apiUrl}/projects/${id}/jobs/${status.id}/trace`), token)
    : Effect.succeed("")

const readChecks = Effect.fnUntraced(function*(reading: Reading, mergeRequest: MergeRequest, known: ReadonlySet<string>) {
  const headSha = mergeRequest.sha ?? ""
  const checked = yield* Checks.read(reading.reads, reading.access, mergeRequest)
  const none: HeadChecks = { headSha, state: "none", at: null, failing: [] }
  if (checked === null) return none
  const runs = Checks.toCheckRuns(checked)
  const pipelines = Checks.toWorkflowRuns(checked, mergeRequest)
  const states = [...runs, ...pipelines].map(stateOf)
  if (states.length === 0) return none
  const ends = [
    ...runs.flatMap(({ completedAt }) => completedAt ?? []),
    ...pipelines.flatMap((pipeline) => stateOf(pipeline) === "pending" ? [] : pipeline.updatedAt)
  ].map(Answers.instantOf)
  const state = states.includes("pending") ? "running" : states.includes("failure") ? "failed" : "passed"
  const failed = checked.statuses.filter((_, i) => runs[i] !== undefined && stateOf(runs[i]) === "failure")
    .sort((a, b) => a.name < b.name ? -1 : 1).slice(0, MAX_FAILING_CHECKS)
  const failing = state !== "failed" || known.has(headSha)
    ? []
    : failed.length > 0
    ? yield* Effect.forEach(failed, (status) =>
      Effect.map(logOf(reading, status), (log): FailingCheck => ({
        name: status.name,
        url: status.target_url ?? "",
        summary: status.description ?? "",
        annotations: [],
        log
      })), { concurrency: 2 })
    // A pipeline that could not begin has no jobs.
    : pipelines.filter((pipeline) => stateOf(pipeline) === "failure").slice(0, MAX_FAILING_CHECKS)
      .map(({ name, url }): FailingCheck => ({ name, url, summary: "", annotations: [], log: "" }))
  const checks: HeadChecks = { headSha, state, at: ends.length === 0 ? null : ends.reduce(DateTime.max), failing }
  return checks
})

const read = Effect.fnUntraced(function*(reading: Reading, number: number, { checks, knownChecks, since }: ReadOptions) {
  const { access: { token }, reads } = reading
  const mergeRequest = yield* reads.one({ path: place(reading, number), schema: Answers.MergeRequest, token })
  const open = isOpen(mergeRequest)
  return {
    isOpen: open,
    url: mergeRequest.web_url,
    headRef: mergeRequest.source_branch,
    items: open ? yield* readItems(reading, mergeRequest, since) : [],
    checks: checks && open ? yield* readChecks(reading, mergeRequest, knownChecks) : null
  }
})

/** Not shown. A comment of a person that quotes it is not ours: ours is by the token's account. */
const marker = (key: string): string => `<!-- slipway:${key.replaceAll(/[^\w:./-]/gu, "_")} -->`

const Written = Schema.Struct({ id: Counter })

const reply = Effect.fnUntraced(function*(reading: Reading, number: number, key: string, text: string) {
  const { access: { token }, api } = reading
  const account = yield* api.own(token)
  const mergeRequest = yield* reading.reads.one({ path: place(reading, number), schema: Answers.MergeRequest, token })
  const own = (yield* readNotes(reading, number)).find(({ author, body }) => author.id === account.id && body.endsWith(marker(key)))
  const body = `${withoutQuickActions(text.slice(0, MAX_REPLY).toWellFormed())}\n\n${marker(key)}`
  if (own !== undefined && own.body === body) return Answers.noteUrl(mergeRequest.web_url, own.id)
  const path = `${place(reading, number)}/notes`
  const written = yield* api.ask(
    Written,
    own === undefined
      ? { method: "POST", path, token, body: { body } }
      : { method: "PUT", path: `${path}/${own.id}`, token, body: { body } }
  )
  return Answers.noteUrl(mergeRequest.web_url, written.id)
})

const make = Effect.fnUntraced(function*(options: GitLabApi.Options) {
  const api = yield* GitLabApi.make(options)
  const projects = Projects.make(api, options)
  const reads = Reads.make(api)
  return PullRequestFeedback.of({
    read: Effect.fn("PullRequestFeedback.read")((repo: RepoName, number: number, options: ReadOptions) => {
      const operation = "read the feedback on the pull request"
      const reading = projects.with(repo, (access) => read({ api, reads, access }, number, options))
      return within(operation, repo, reading.pipe(orNoMergeRequest(operation)))
    }),
    reply: Effect.fn("PullRequestFeedback.reply")((repo: RepoName, number: number, key: string, text: string) => {
      const operation = "reply on the pull request"
      const replying = projects.with(repo, (access) => reply({ api, reads, access }, number, key, text))
      return within(operation, repo, replying.pipe(orNoMergeRequest(operation)))
    })
  })
})

/** Fails if the address of GitLab cannot be parsed. */
export const layer = (options: GitLabApi.Options): Layer.Layer<PullRequestFeedback, SourceHostError> =>
  Layer.effect(PullRequestFeedback, make(options))
