/**
 * `SourceHostEvents` from Forgejo and Gitea: webhooks, signed with their secret. An event for a review or a label does not say which one
 * it is, so the issue's timeline is asked for it. If it cannot be read, polling finds them later.
 */
import type { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { NotAuthentic, type News as SourceNews, SourceHostEvents } from "@slipway/domain/source/ports/SourceHostEvents"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { DateTime, Duration, Effect, Layer, Option, Redacted, Schema } from "effect"
import { createHmac, timingSafeEqual } from "node:crypto"
import * as Answers from "./Answers.ts"
import * as ForgejoApi from "./ForgejoApi.ts"
import { placeOf } from "./ForgejoApi.ts"
import * as News from "./News.ts"
import { pullOfRun } from "./RepositoryNewsForgejo.ts"
import * as Timeline from "./Timeline.ts"

/** Entries of the timeline before an event which may be those of the event. */
const BEFORE = Duration.seconds(10)

const optional = Schema.optionalKey
const Repository = Schema.Struct({ id: Counter, full_name: RepoName })
const Pull = Schema.Struct({
  ...News.Issue.fields,
  head: Schema.Struct({ label: Schema.String, ref: Schema.String })
})
const Payloads = {
  pull_request: Schema.Struct({ action: Schema.String, pull_request: Pull }),
  issues: Schema.Struct({ action: Schema.String, issue: News.Issue }),
  issue_comment: Schema.Struct({
    action: Schema.String,
    issue: News.Issue,
    comment: Schema.Struct({
      id: Counter,
      body: optional(Schema.NullOr(Schema.String)),
      html_url: Schema.String,
      user: Answers.Author,
      created_at: Schema.String
    })
  }),
  push: Schema.Struct({ ref: Schema.String }),
  run: Schema.Struct({
    run: Schema.Struct({ prettyref: Schema.String, event: optional(Schema.NullOr(Schema.String)), repository: Repository })
  }),
  workflow_run: Schema.Struct({
    action: Schema.String,
    workflow_run: Schema.Struct({ head_branch: Schema.String, event: optional(Schema.NullOr(Schema.String)) })
  }),
  status: Schema.Struct({ state: Schema.String })
}
const Delivery = Schema.Struct({ repository: Repository })

interface Event {
  readonly payload: unknown
  readonly repo: RepoName
  readonly repositoryId: number
}

const decoded = <A>(schema: Schema.Codec<A, any>, payload: unknown): A | null =>
  Option.getOrNull(Schema.decodeUnknownOption(schema)(payload))

/** News, and the issue whose timeline has the rest. */
interface Heard {
  readonly news: ReadonlyArray<SourceNews>
  readonly look?: { readonly issue: News.Issue; readonly for: "labels" | "reviews" }
}

const nothing: Heard = { news: [] }

const ofPull = ({ payload, repo, repositoryId }: Event, own: number | null): Heard => {
  const read = decoded(Payloads.pull_request, payload)
  if (read === null) return nothing
  const { action, pull_request: pull } = read
  const issue = { ...pull, pull_request: {} }
  const changed = News.changed(repo, pull.number, pull.head.label === "" ? pull.head.ref : pull.head.label)
  return {
    news: [changed, ...action === "opened" ? [News.opened(repo, repositoryId, issue, own)] : []],
    ...(action === "label_updated" ? { look: { issue, for: "labels" } } : {}),
    ...(action === "reviewed" ? { look: { issue, for: "reviews" } } : {})
  }
}

const ofIssue = ({ payload, repo, repositoryId }: Event, own: number | null): Heard => {
  const read = decoded(Payloads.issues, payload)
  if (read === null) return nothing
  const { action, issue } = read
  if (action === "opened") return { news: [News.opened(repo, repositoryId, issue, own)] }
  return action === "label_updated" ? { news: [], look: { issue, for: "labels" } } : nothing
}

const ofComment = ({ payload, repo }: Event, own: number | null): Heard => {
  const read = decoded(Payloads.issue_comment, payload)
  if (read === null) return nothing
  const { action, comment, issue } = read
  return {
    news: [
      ...News.isPull(issue) ? [News.changed(repo, issue.number)] : [],
      ...action === "created" ? [News.written(repo, News.aboutOf(issue), comment, own)] : []
    ]
  }
}

const ofPush = ({ payload, repo }: Event): Heard => {
  const branch = /^refs\/heads\/(.+)$/su.exec(decoded(Payloads.push, payload)?.ref ?? "")?.[1]
  return branch === undefined ? nothing : { news: [{ _tag: "Pull", repo, branch, number: null }] }
}

const ofRun = ({ payload, repo }: Event): Heard => {
  const run = decoded(Payloads.run, payload)?.run
  return run === undefined ? nothing : { news: [pullOfRun(repo, run.prettyref, run.event)] }
}

const ofWorkflowRun = ({ payload, repo }: Event): Heard => {
  const read = decoded(Payloads.workflow_run, payload)
  if (read?.action !== "completed") return nothing
  return { news: [pullOfRun(repo, read.workflow_run.head_branch, read.workflow_run.event)] }
}

/** A status names neither a branch nor a pull request. */
const ofStatus = ({ payload, repo }: Event): Heard => {
  const state = decoded(Payloads.status, payload)?.state ?? "pending"
  return state === "pending" ? nothing : { news: [{ _tag: "Missed", repo }] }
}

const readers: Readonly<Record<string, (event: Event, own: number | null) => Heard>> = {
  pull_request: ofPull,
  pull_request_approved: ofPull,
  pull_request_rejected: ofPull,
  pull_request_comment: ofPull,
  issues: ofIssue,
  issue_comment: ofComment,
  push: ofPush,
  action_run_success: ofRun,
  action_run_failure: ofRun,
  action_run_recover: ofRun,
  workflow_run: ofWorkflowRun,
  status: ofStatus
}

const SIGNATURES = ["x-forgejo-signature", "x-gitea-signature", "x-hub-signature-256"] as const

const isAuthentic = (secret: Redacted.Redacted, body: string, headers: Readonly<Record<string, string | undefined>>): boolean => {
  const given = SIGNATURES.map((name) => headers[name]).find((value) => value !== undefined) ?? ""
  const hex = given.replace(/^sha256=/u, "")
  // An empty secret would be known to everyone.
  if (!/^[\da-f]{64}$/iu.test(hex) || Redacted.value(secret) === "") return false
  return timingSafeEqual(createHmac("sha256", Redacted.value(secret)).update(body).digest(), Buffer.from(hex, "hex"))
}

const parsed = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Unknown))

/** Events of runs have their repository in the run. */
const eventOf = (payload: unknown): Event | null => {
  const repository = decoded(Delivery, payload)?.repository ?? decoded(Payloads.run, payload)?.run.repository
  return repository === undefined ? null : { payload, repo: repository.full_name, repositoryId: repository.id }
}

const fromTimeline = Effect.fnUntraced(function*(
  api: ForgejoApi.ForgejoApi,
  repo: RepoName,
  own: number | null,
  { for: wanted, issue }: NonNullable<Heard["look"]>
) {
  const since = Timeline.secondsOf(DateTime.subtractDuration(News.instantOf(issue.updated_at), BEFORE))
  const entries = yield* Timeline.all(api, placeOf(repo), issue.number, since)
  return wanted === "reviews"
    ? entries.filter((entry) => entry.type === "review" && News.isText(entry)).map((entry) =>
      News.written(repo, News.aboutOf(issue), entry, own)
    )
    : entries.flatMap((entry) => News.addedOf(entry, own) ?? []).map((added) => News.labelled(repo, issue, added))
})

const make = Effect.fnUntraced(function*({ secret, ...options }: ForgejoApi.Options & { readonly secret: Redacted.Redacted }) {
  const api = yield* ForgejoApi.make(options)
  const left = (what: string, repo: RepoName) => (failure: ForgejoApi.Failure) =>
    Effect.logWarning("an event of the source host could not be completed", { what, repo, reason: failure.message })

  return SourceHostEvents.of({
    read: Effect.fn("SourceHostEvents.read")(function*({ body, headers }) {
      if (!isAuthentic(secret, body, headers)) return yield* new NotAuthentic()
      const event = eventOf(Option.getOrNull(parsed(body)))
      const name = headers["x-forgejo-event"] ?? headers["x-gitea-event"] ?? ""
      // Names come from the network.
      const read = Object.hasOwn(readers, name) ? readers[name] : undefined
      if (event === null || read === undefined) return []
      const { repo } = event
      const own = yield* api.ownId(placeOf(repo)).pipe(
        Effect.catch((failure) => Effect.as(left("account", repo)(failure), null))
      )
      const { look, news } = read(event, own)
      // Our own texts must not count as those of a person.
      if (own === null) return news.filter(({ _tag }) => _tag === "Pull" || _tag === "Missed")
      if (look === undefined) return news
      const more = yield* fromTimeline(api, repo, own, look).pipe(
        Effect.catch((failure) => Effect.as(left(look.for, repo)(failure), []))
      )
      return [...news, ...more]
    })
  })
})

/** Fails if the address cannot be used. */
export const layer = (
  options: ForgejoApi.Options & { readonly secret: Redacted.Redacted }
): Layer.Layer<SourceHostEvents, SourceHostError> => Layer.effect(SourceHostEvents, make(options))
