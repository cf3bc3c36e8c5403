/**
 * `SourceHostEvents` from GitLab: webhooks of projects and groups, and system hooks. They carry a secret token, a signature, or both.
 * https://docs.gitlab.com/user/project/integrations/webhook_events/
 */
import type { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { type News, NotAuthentic, type SignedNews, SourceHostEvents } from "@slipway/domain/source/ports/SourceHostEvents"
import { Counter } from "@slipway/domain/text/Text"
import { DateTime, Duration, Effect, Layer, Option, Redacted, Schema } from "effect"
import { createHash, createHmac, timingSafeEqual } from "node:crypto"
import * as GitLabApi from "./GitLabApi.ts"
import { type About, authorOf, comment, isEnded, labelled } from "./News.ts"

const optional = Schema.optionalKey
const nullable = Schema.NullOr(Schema.String)
const User = Schema.Struct({ id: Counter, username: Schema.String })
const Labels = Schema.Array(Schema.Struct({ id: Counter, title: Schema.String }))

/** Fields of an issue or merge request. */
const Attributes = {
  id: Counter,
  iid: Counter,
  title: Schema.String,
  description: optional(nullable),
  url: Schema.String,
  action: optional(nullable),
  created_at: Schema.String,
  updated_at: Schema.String
}
const Common = {
  user: User,
  project: Schema.Struct({ id: Counter, path_with_namespace: Schema.String }),
  labels: optional(Schema.NullOr(Labels)),
  changes: optional(Schema.NullOr(Schema.Struct({
    labels: optional(Schema.Struct({ previous: Schema.NullOr(Labels), current: Schema.NullOr(Labels) }))
  })))
}
const Hooks = {
  merge_request: Schema.Struct({ ...Common, object_attributes: Schema.Struct({ ...Attributes, source_branch: Schema.String }) }),
  issue: Schema.Struct({
    ...Common,
    object_attributes: Schema.Struct({ ...Attributes, confidential: optional(Schema.NullOr(Schema.Boolean)) })
  }),
  note: Schema.Struct({
    ...Common,
    object_attributes: Schema.Struct({
      id: Counter,
      note: nullable,
      noteable_type: Schema.String,
      system: optional(Schema.NullOr(Schema.Boolean)),
      internal: optional(Schema.NullOr(Schema.Boolean)),
      action: optional(nullable),
      created_at: Schema.String,
      url: Schema.String
    }),
    merge_request: optional(Schema.Struct({ iid: Counter, title: Schema.String, source_branch: Schema.String })),
    issue: optional(Schema.Struct({ iid: Counter, title: Schema.String, confidential: optional(Schema.NullOr(Schema.Boolean)) }))
  }),
  pipeline: Schema.Struct({
    project: Common.project,
    object_attributes: Schema.Struct({ status: Schema.String, ref: nullable, tag: optional(Schema.NullOr(Schema.Boolean)) }),
    merge_request: optional(Schema.NullOr(Schema.Struct({ iid: Counter, source_branch: Schema.String })))
  }),
  push: Schema.Struct({ project: Common.project, ref: Schema.String }),
  renamed: Schema.Struct({ path_with_namespace: Schema.String, old_path_with_namespace: Schema.String })
}
const Kind = Schema.fromJsonString(Schema.Struct({
  object_kind: optional(Schema.String),
  event_name: optional(Schema.String),
  event_type: optional(nullable),
  project: optional(Schema.NullOr(Schema.Struct({ path_with_namespace: optional(Schema.String) })))
}))

interface Received {
  readonly body: string
  /** The account of the token; `null`: it is not known. */
  readonly own: number | null
  readonly now: DateTime.Utc
}

const decoded = <A>(schema: Schema.Codec<A, any>, body: string): A | null =>
  Option.getOrNull(Schema.decodeUnknownOption(Schema.fromJsonString(schema))(body))

/** Webhooks have `2026-11-21T02:41:00Z` or `2026-11-21 02:41:00 UTC`. */
const instant = (text: string, otherwise: DateTime.Utc): DateTime.Utc =>
  Option.getOrElse(DateTime.make(text.replace(/^(\S+) (\S+) UTC$/u, "$1T$2Z")), () => otherwise)

/** The labels that were added. A new issue or merge request may have some from the start. */
const addedLabels = ({ changes, labels }: { readonly changes?: any; readonly labels?: any }, isNew: boolean): ReadonlyArray<string> => {
  const { current, previous } = (changes?.labels ?? {}) as { readonly current?: typeof Labels.Type; readonly previous?: typeof Labels.Type }
  const before = new Set((previous ?? []).map(({ id }) => id))
  const after: typeof Labels.Type = isNew ? labels ?? current ?? [] : current ?? []
  return [...new Set(after.filter(({ id }) => !before.has(id)).map(({ title }) => title))]
}

const ofText = (
  { now, own }: Received,
  payload: typeof Hooks.issue.Type | typeof Hooks.merge_request.Type,
  isPull: boolean
): ReadonlyArray<News> => {
  const { object_attributes: text, project, user } = payload
  const about: About = { project: project.id, repo: project.path_with_namespace, number: text.iid, isPull, title: text.title }
  const isNew = text.action === "open"
  const [author, body, url] = [authorOf(user, own), text.description ?? "", text.url]
  return [
    ...isNew
      ? [comment(about, { id: text.id, kind: isPull ? "pull" : "issue", body, url, author, at: instant(text.created_at, now) })]
      : [],
    ...addedLabels(payload, isNew).map((label) => labelled(about, { label, body, url, author, at: instant(text.updated_at, now) }))
  ]
}

const ofMergeRequest = (received: Received): ReadonlyArray<News> => {
  const payload = decoded(Hooks.merge_request, received.body)
  if (payload === null) return []
  const { object_attributes: { iid: number, source_branch: branch }, project } = payload
  return [{ _tag: "Pull", repo: project.path_with_namespace, branch, number }, ...ofText(received, payload, true)]
}

const ofIssue = (received: Received): ReadonlyArray<News> => {
  const payload = decoded(Hooks.issue, received.body)
  // A confidential text must not reach a merge request that others can read.
  return payload === null || payload.object_attributes.confidential === true ? [] : ofText(received, payload, false)
}

const ofNote = ({ body, now, own }: Received): ReadonlyArray<News> => {
  const payload = decoded(Hooks.note, body)
  if (payload === null || payload.object_attributes.system === true) return []
  const { issue, merge_request: mergeRequest, object_attributes: note, project, user } = payload
  const on = note.noteable_type === "MergeRequest" ? mergeRequest : note.noteable_type === "Issue" ? issue : undefined
  if (on === undefined) return []
  const repo = project.path_with_namespace
  const about: About = { project: project.id, repo, number: on.iid, isPull: on === mergeRequest, title: on.title }
  const isPublic = note.internal !== true && issue?.confidential !== true
  const isNew = note.action == null || note.action === "create"
  const text = {
    id: note.id,
    kind: "note",
    body: note.note ?? "",
    url: note.url,
    author: authorOf(user, own),
    at: instant(note.created_at, now)
  } as const
  return [
    ...mergeRequest !== undefined && about.isPull
      ? [{ _tag: "Pull", repo, branch: mergeRequest.source_branch, number: mergeRequest.iid } as const]
      : [],
    ...isNew && isPublic ? [comment(about, text)] : []
  ]
}

const ofPipeline = ({ body }: Received): ReadonlyArray<News> => {
  const payload = decoded(Hooks.pipeline, body)
  if (payload === null || !isEnded(payload.object_attributes.status)) return []
  const { merge_request: mergeRequest, object_attributes: { ref, tag }, project: { path_with_namespace: repo } } = payload
  if (mergeRequest != null) return [{ _tag: "Pull", repo, branch: mergeRequest.source_branch, number: mergeRequest.iid }]
  return ref === null || tag === true ? [] : [{ _tag: "Pull", repo, branch: ref, number: null }]
}

const ofPush = ({ body }: Received): ReadonlyArray<News> => {
  const payload = decoded(Hooks.push, body)
  const branch = /^refs\/heads\/(.+)$/su.exec(payload?.ref ?? "")?.[1]
  return payload === null || branch === undefined ? [] : [{ _tag: "Pull", repo: payload.project.path_with_namespace, branch, number: null }]
}

const ofRenamed = ({ body }: Received): ReadonlyArray<News> => {
  const payload = decoded(Hooks.renamed, body)
  return payload === null
    ? []
    : [{ _tag: "Renamed", from: payload.old_path_with_namespace, repo: payload.path_with_namespace }]
}

/** By `object_kind`, or `event_name` of system hooks. A job's end comes also as its pipeline's. */
const readers: Readonly<Record<string, (received: Received) => ReadonlyArray<News>>> = {
  merge_request: ofMergeRequest,
  issue: ofIssue,
  note: ofNote,
  pipeline: ofPipeline,
  push: ofPush,
  project_rename: ofRenamed,
  project_transfer: ofRenamed
}

/** How a webhook is known to be GitLab's. */
export interface Options {
  /** The secret token, which GitLab sends as `X-Gitlab-Token`; `null`: none is configured. */
  readonly secret: Redacted.Redacted | null
  /** The signing token, with which GitLab signs. If it is configured, each request must be signed. */
  readonly signingToken?: Redacted.Redacted
  /** To know the service's own comments, where the token is of a person's account. */
  readonly host?: GitLabApi.Options
}

/** In a time that depends on neither text. */
const isSame = (one: string, other: string): boolean => {
  const [a, b] = [one, other].map((text) => createHash("sha256").update(text).digest())
  return a !== undefined && b !== undefined && timingSafeEqual(a, b)
}

/** An older request may be a recorded one. https://www.standardwebhooks.com */
const TOLERANCE = Duration.minutes(5)

const isSigned = (token: string, { body, headers }: SignedNews, now: DateTime.Utc): boolean => {
  const { "webhook-id": id = "", "webhook-signature": signatures = "", "webhook-timestamp": timestamp = "" } = headers
  const age = Math.abs(now.epochMilliseconds - Number(timestamp) * 1000)
  if (id === "" || !/^\d{1,12}$/u.test(timestamp) || age > Duration.toMillis(TOLERANCE)) return false
  const key = token.startsWith("whsec_") ? Buffer.from(token.slice("whsec_".length), "base64") : Buffer.from(token)
  const expected = `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`
  return signatures.split(" ").slice(0, 10).some((signature) => isSame(signature, expected))
}

const isAuthentic = ({ secret, signingToken }: Options, sent: SignedNews, now: DateTime.Utc): boolean => {
  // An empty secret proves nothing.
  const isTold = secret === null || Redacted.value(secret) !== "" && isSame(sent.headers["x-gitlab-token"] ?? "", Redacted.value(secret))
  const isProven = signingToken === undefined || Redacted.value(signingToken) !== "" && isSigned(Redacted.value(signingToken), sent, now)
  return (secret !== null || signingToken !== undefined) && isTold && isProven
}

export const layer = (options: Options): Layer.Layer<SourceHostEvents, SourceHostError> =>
  Layer.effect(
    SourceHostEvents,
    Effect.gen(function*() {
      const { host } = options
      const api = host === undefined ? null : yield* GitLabApi.make(host)
      const ownOf = (path: string) =>
        api === null || host === undefined ? Effect.succeed(null) : host.token(path).pipe(
          Effect.flatMap(api.own),
          Effect.map(({ id }) => id),
          // The marks of the service's replies are left.
          Effect.catch((failure) =>
            Effect.as(Effect.logWarning("the account of the token is not known", { path, reason: failure.message }), null)
          )
        )
      return SourceHostEvents.of({
        read: Effect.fn("SourceHostEvents.read")(function*(sent) {
          const now = yield* DateTime.now
          if (!isAuthentic(options, sent, now)) return yield* new NotAuthentic()
          const kind = Option.getOrNull(Schema.decodeUnknownOption(Kind)(sent.body))
          if (kind === null || kind.event_type?.startsWith("confidential_") === true) return []
          // Names come from the network.
          const read = [kind.object_kind, kind.event_name].find((name) => name !== undefined && Object.hasOwn(readers, name))
          if (read === undefined) return []
          const own = yield* ownOf(kind.project?.path_with_namespace ?? "")
          return readers[read]?.({ body: sent.body, own, now }) ?? []
        })
      })
    })
  )
