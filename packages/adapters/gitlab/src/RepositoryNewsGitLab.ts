/**
 * `RepositoryNews` on GitLab: one conditional request a poll, in turn for merge requests, pipelines, comments and issues. GitLab tells of
 * added labels for each issue or merge request alone: those whose labels changed are asked for in polls of their own.
 * https://docs.gitlab.com/api/events/
 */
import { type PolledNews, RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import type { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { News } from "@slipway/domain/source/ports/SourceHostEvents"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { LruCache } from "@slipway/domain/store/LruCache"
import { Counter } from "@slipway/domain/text/Text"
import * as RestApi from "@slipway/rest-host/RestApi"
import { onStatus } from "@slipway/rest-host/RestApi"
import { within } from "@slipway/rest-host/Within"
import { DateTime, Effect, Layer, Option, Schema } from "effect"
import { instantOf, User } from "./Answers.ts"
import * as GitLabApi from "./GitLabApi.ts"
import { type About, authorOf, comment, isEnded, labelled } from "./News.ts"
import type { Access } from "./Projects.ts"
import * as Projects from "./Projects.ts"

const PER_PAGE = 100
/** Pages of comments that are read after a time without polls. */
const MAX_PAGES = 3
/** The time between two polls of a project. */
const INTERVAL_MILLIS = 60_000
/** The time to the next poll while there is more to read. */
const SOON_MILLIS = 1_000
/** Items whose labels are still to be read, and labels whose item is. */
const MAX_WAITING = 50

const TURNS = ["merge_requests", "pipelines", "events", "issues"] as const
type List = "issues" | "merge_requests" | "pipelines"
type Kind = "issues" | "merge_requests"

const nullable = Schema.NullOr(Schema.String)
const Kinds = Schema.Literals(["issues", "merge_requests"])
/** How far a list was read: the newest known change, and the items that changed then. */
const Place = Schema.Struct({ at: Schema.String, known: Schema.Array(Counter) })
const Cursor = Schema.Struct({
  /** Index of {@link TURNS}. */
  turn: Counter,
  merge_requests: Place,
  issues: Place,
  pipelines: Place,
  events: Schema.Struct({
    since: Schema.String,
    /** The newest known event. */
    known: Counter,
    /** The page to read next; above 1 while older events are unread. */
    page: Counter,
    /** The newest event of page 1. */
    newest: Counter
  }),
  /** Their label events since then are to be read. */
  items: Schema.Array(Schema.Struct({ kind: Kinds, iid: Counter, since: Schema.String })),
  /** Added labels, whose issue or merge request is to be read. */
  added: Schema.Array(Schema.Struct({
    kind: Kinds,
    iid: Counter,
    label: Schema.String,
    user: Schema.Struct({ id: Counter, username: Schema.String }),
    at: Schema.String
  })),
  tags: Schema.Record(Schema.String, Schema.String)
})
type Cursor = typeof Cursor.Type
const CursorText = Schema.fromJsonString(Cursor)

/** An issue or merge request. */
const Item = Schema.Struct({
  id: Counter,
  iid: Counter,
  title: Schema.String,
  description: Schema.optionalKey(nullable),
  author: User,
  labels: Schema.Array(Schema.String),
  created_at: Schema.String,
  updated_at: Schema.String,
  web_url: Schema.String,
  source_branch: Schema.optionalKey(Schema.String),
  confidential: Schema.optionalKey(Schema.NullOr(Schema.Boolean))
})
type Item = typeof Item.Type
const Pipelines = Schema.Array(Schema.Struct({ id: Counter, ref: Schema.String, status: Schema.String, updated_at: Schema.String }))
const LabelEvents = Schema.Array(Schema.Struct({
  user: Schema.NullOr(User),
  created_at: Schema.String,
  /** `null`: the label was deleted. */
  label: Schema.NullOr(Schema.Struct({ name: Schema.String })),
  action: Schema.String
}))
const Events = Schema.Array(Schema.Struct({
  id: Counter,
  target_title: Schema.optionalKey(nullable),
  created_at: Schema.String,
  note: Schema.optionalKey(Schema.NullOr(Schema.Struct({
    id: Counter,
    body: nullable,
    author: User,
    created_at: Schema.String,
    system: Schema.Boolean,
    noteable_type: Schema.String,
    noteable_iid: Schema.optionalKey(Schema.NullOr(Counter)),
    confidential: Schema.optionalKey(Schema.NullOr(Schema.Boolean)),
    internal: Schema.optionalKey(Schema.NullOr(Schema.Boolean))
  })))
}))

interface Polling {
  readonly api: GitLabApi.GitLabApi
  readonly access: Access
  readonly repo: RepoName
  /** The account of the token. */
  readonly own: number
  readonly cursor: Cursor
  readonly labels: Seen
}

/** The labels that each item had at its last change that was seen. */
type Seen = LruCache<string, { readonly labels: ReadonlySet<string>; readonly at: string }>

interface Polled {
  readonly news: ReadonlyArray<News>
  readonly cursor: Cursor
  readonly isUnchanged: boolean
  /** More is known to be unread. */
  readonly isSoon?: boolean
}

const millis = (text: string): number => instantOf(text).epochMilliseconds

/** A conditional read; `null`: nothing changed. A part of the project that is turned off has no news. */
const ask = Effect.fnUntraced(function*<A, I>(
  { access, api, cursor }: Polling,
  path: string,
  query: Readonly<Record<string, string | number>>,
  schema: Schema.Codec<A, I>,
  tagName: string | null
) {
  const tag = tagName === null ? undefined : cursor.tags[tagName]
  const request = { method: "GET", path: `/projects/${access.id}${path}`, query, token: access.token } as const
  const answer = yield* api.send({ ...request, headers: tag === undefined ? {} : { "if-none-match": tag } }).pipe(
    onStatus(304, () => Effect.succeed("unchanged" as const)),
    onStatus(403, () => Effect.succeed("off" as const))
  )
  if (answer === "unchanged" || answer === "off") return { answer, found: null, tag: null }
  const etag = answer.headers.get("etag")
  return {
    answer: "read" as const,
    found: yield* RestApi.decode(api.host, schema, answer),
    tag: etag === null || etag.length > 200 ? null : etag
  }
})

const withTag = (cursor: Cursor, name: string, tag: string | null): Cursor => {
  const { [name]: _, ...others } = cursor.tags
  return { ...cursor, tags: tag === null ? others : { ...others, [name]: tag } }
}

/** More changed at one time than a page has. */
const missed = (repo: RepoName): News => ({ _tag: "Missed", repo })

/** Reads a list of what changed since the cursor, oldest first. */
const readList = Effect.fnUntraced(function*<A extends { readonly id: number; readonly updated_at: string }, I>(
  polling: Polling,
  list: List,
  query: Readonly<Record<string, string>>,
  schema: Schema.Codec<ReadonlyArray<A>, I>
) {
  const { cursor, repo } = polling
  const place = cursor[list]
  const all = { ...query, order_by: "updated_at", sort: "asc", updated_after: place.at, per_page: PER_PAGE }
  const { answer, found, tag } = yield* ask(polling, `/${list}`, all, schema, list)
  if (found === null) return { isUnchanged: answer === "unchanged", changed: [], news: [], cursor, isSoon: false }
  const changed = found.filter(({ id, updated_at }) => millis(updated_at) > millis(place.at) || !place.known.includes(id))
  const newest = found.reduce((at, { updated_at }) => millis(updated_at) > millis(at) ? updated_at : at, place.at)
  const isFull = found.length === PER_PAGE
  const isStuck = isFull && millis(newest) === millis(place.at)
  const at = isStuck ? new Date(millis(newest) + 1).toISOString() : newest
  const known = found.filter(({ updated_at }) => millis(updated_at) === millis(at)).map(({ id }) => id)
  // A tag is of one address, which has the time.
  const next = withTag({ ...cursor, [list]: { at, known } }, list, at === place.at ? tag : null)
  return { isUnchanged: false, changed, news: isStuck ? [missed(repo)] : [], cursor: next, isSoon: isFull }
})

const aboutItem = ({ access, repo }: Polling, kind: Kind, { iid, title }: Pick<Item, "iid" | "title">): About => ({
  project: access.id,
  repo,
  number: iid,
  isPull: kind === "merge_requests",
  title
})

/** News of issues or merge requests, and which of them may have more labels. */
const readItems = Effect.fnUntraced(function*(polling: Polling, kind: Kind) {
  const { access, cursor: before, labels, own, repo } = polling
  const query: Readonly<Record<string, string>> = kind === "merge_requests" ? { state: "all", scope: "all" } : { scope: "all" }
  const { changed, cursor, isSoon, isUnchanged, news } = yield* readList(polling, kind, query, Schema.Array(Item))
  const shown = changed.filter(({ confidential }) => confidential !== true)
  const place = before[kind]
  /** Whether it was after the change that the cursor knows. */
  const isAfter = (time: string, { id }: Item) => millis(time) > millis(place.at) - (place.known.includes(id) ? 0 : 1)
  const told: ReadonlyArray<News> = shown.flatMap((item) => [
    ...item.source_branch === undefined
      ? []
      : [{ _tag: "Pull", repo, branch: item.source_branch, number: item.iid } as const],
    ...!isAfter(item.created_at, item) ? [] : [
      comment(aboutItem(polling, kind, item), {
        id: item.id,
        kind: kind === "issues" ? "issue" : "pull",
        body: item.description ?? "",
        url: item.web_url,
        author: authorOf(item.author, own),
        at: instantOf(item.created_at)
      })
    ]
  ])
  const relabelled = shown.filter((item) => {
    const key = `${access.id} ${kind} ${item.iid}`
    const known = labels.get(key)
    labels.set(key, { labels: new Set(item.labels), at: item.updated_at })
    // The same change once more: its poll was not recorded.
    const isKnown = known !== undefined && known.at !== item.updated_at
    return item.labels.some((label) => !isKnown || !known.labels.has(label))
  })
  const items = [
    ...cursor.items,
    ...relabelled.map(({ id, iid }) => ({
      kind,
      iid,
      since: place.known.includes(id) ? new Date(millis(place.at) + 1).toISOString() : place.at
    }))
  ].slice(-MAX_WAITING)
  const polled: Polled = { news: [...news, ...told], cursor: { ...cursor, items }, isUnchanged, isSoon: isSoon || items.length > 0 }
  return polled
})

const readPipelines = Effect.fnUntraced(function*(polling: Polling) {
  const { changed, cursor, isSoon, isUnchanged, news } = yield* readList(polling, "pipelines", {}, Pipelines)
  const { repo } = polling
  const told = changed.filter(({ status }) => isEnded(status)).map(({ ref }): News => {
    const number = /^refs\/merge-requests\/(\d{1,15})\//u.exec(ref)?.[1]
    return number === undefined
      ? { _tag: "Pull", repo, branch: ref, number: null }
      : { _tag: "Pull", repo, branch: null, number: Number(number) }
  })
  const polled: Polled = { news: [...news, ...told], cursor, isUnchanged, isSoon }
  return polled
})

/** The events of comments. GitLab's filter for comments alone leaves out those in threads. */
const readEvents = Effect.fnUntraced(function*(polling: Polling) {
  const { access, api, cursor, own, repo } = polling
  const { known, newest, page, since } = cursor.events
  const after = DateTime.formatIso(DateTime.subtract(instantOf(since), { days: 2 })).slice(0, 10)
  const query = { action: "commented", after, sort: "desc", per_page: PER_PAGE, page }
  const { answer, found, tag } = yield* ask(polling, "/events", query, Events, page === 1 ? "events" : null)
  if (found === null) return { news: [], cursor, isUnchanged: answer === "unchanged" } satisfies Polled
  const fresh = found.filter(({ created_at, id }) => id > known && millis(created_at) >= millis(since))
  const news = fresh.toReversed().flatMap(({ note, target_title: title }): ReadonlyArray<News> => {
    if (note == null || note.system || note.internal === true || note.confidential === true) return []
    const { noteable_iid: iid, noteable_type: type } = note
    if (iid == null || type !== "MergeRequest" && type !== "Issue") return []
    const kind = type === "Issue" ? "issues" : "merge_requests"
    const text = {
      id: note.id,
      kind: "note",
      body: note.body ?? "",
      url: `${api.url}/${access.path}/-/${kind}/${iid}#note_${note.id}`,
      author: authorOf(note.author, own),
      at: instantOf(note.created_at)
    } as const
    return [
      ...kind === "issues" ? [] : [{ _tag: "Pull", repo, branch: null, number: iid } as const],
      comment(aboutItem(polling, kind, { iid, title: title ?? "" }), text)
    ]
  })
  const top = Math.max(newest, ...found.map(({ id }) => id))
  const isFull = fresh.length === PER_PAGE
  const isLost = isFull && page >= MAX_PAGES
  const next = isFull && !isLost
    ? { since, known, page: page + 1, newest: top }
    : { since, known: Math.max(known, top), page: 1, newest: 0 }
  const polled: Polled = {
    news: isLost ? [...news, missed(repo)] : news,
    // While older events are unread, the tag would hide them.
    cursor: withTag({ ...cursor, events: next }, "events", next.page > 1 || page > 1 ? null : tag),
    isUnchanged: false,
    isSoon: next.page > 1
  }
  return polled
})

/** The labels that were added to the first waiting item. */
const readLabels = Effect.fnUntraced(function*(polling: Polling) {
  const { cursor } = polling
  const [item, ...items] = cursor.items
  if (item === undefined) return { news: [], cursor, isUnchanged: true } satisfies Polled
  const { iid, kind, since } = item
  const { found } = yield* ask(polling, `/${kind}/${iid}/resource_label_events`, { per_page: PER_PAGE }, LabelEvents, null).pipe(
    onStatus(404, () => Effect.succeed({ found: null }))
  )
  const added = (found ?? []).flatMap(({ action, created_at: at, label, user }) =>
    action !== "add" || label === null || user === null || millis(at) < millis(since)
      ? []
      : [{ kind, iid, label: label.name, user: { id: user.id, username: user.username }, at }]
  )
  const next = { ...cursor, items, added: [...cursor.added, ...added].slice(-MAX_WAITING) }
  return { news: [], cursor: next, isUnchanged: false, isSoon: items.length > 0 || next.added.length > 0 } satisfies Polled
})

/** The issue or merge request of the first waiting labels, which are news with its text. */
const readLabelled = Effect.fnUntraced(function*(polling: Polling) {
  const { cursor, own } = polling
  const [first] = cursor.added
  if (first === undefined) return { news: [], cursor, isUnchanged: true } satisfies Polled
  const isOfItem = ({ iid, kind }: typeof first) => iid === first.iid && kind === first.kind
  const { found } = yield* ask(polling, `/${first.kind}/${first.iid}`, {}, Item, null).pipe(
    onStatus(404, () => Effect.succeed({ found: null }))
  )
  const news = found === null ?
    [] :
    cursor.added.filter(isOfItem).map(({ at, kind, label, user }) =>
      labelled(aboutItem(polling, kind, found), {
        label,
        body: found.description ?? "",
        url: found.web_url,
        author: authorOf(user, own),
        at: instantOf(at)
      })
    )
  const added = cursor.added.filter((one) => !isOfItem(one))
  const isSoon = added.length > 0 || cursor.items.length > 0
  return { news, cursor: { ...cursor, added }, isUnchanged: false, isSoon } satisfies Polled
})

/** The first poll asks for everything since then. */
const first = (since: DateTime.Utc): Cursor => {
  const place = { at: DateTime.formatIso(since), known: [] }
  return {
    turn: 0,
    merge_requests: place,
    issues: place,
    pipelines: place,
    events: { since: place.at, known: 0, page: 1, newest: 0 },
    items: [],
    added: [],
    tags: {}
  }
}

/** An unreadable cursor was written by another version: everything may be news. */
const cursorOf = (text: string | null, since: DateTime.Utc): Cursor =>
  text === null ? first(since) : Option.getOrElse(Schema.decodeUnknownOption(CursorText)(text), () => first(since))

const poll = (polling: Polling) => {
  const { cursor: { added, events, items, turn } } = polling
  if (added.length > 0) return readLabelled(polling)
  if (items.length > 0) return readLabels(polling)
  const planned = events.page > 1 ? "events" : TURNS[turn % TURNS.length] ?? "merge_requests"
  const next = { ...polling, cursor: { ...polling.cursor, turn: (turn + 1) % TURNS.length } }
  if (planned === "events") return readEvents(next)
  return planned === "pipelines" ? readPipelines(next) : readItems(next, planned)
}

/** Labels of items that are remembered. */
const MAX_LABELLED = 20_000

const make = Effect.fnUntraced(function*(options: GitLabApi.Options) {
  const api = yield* GitLabApi.make(options)
  const projects = Projects.make(api, options)
  const labels: Seen = new LruCache(MAX_LABELLED)

  return RepositoryNews.of({
    poll: Effect.fn("RepositoryNews.poll")((repo, { cursor: text, since }) =>
      within(
        "read the news of the repository",
        repo,
        projects.with(repo, (access) =>
          Effect.gen(function*() {
            const own = yield* api.own(access.token)
            const { cursor, isSoon = false, isUnchanged, news } = yield* poll({
              api,
              access,
              repo,
              own: own.id,
              cursor: cursorOf(text, since),
              labels
            })
            const polled: PolledNews = {
              news,
              cursor: JSON.stringify(cursor),
              pollAfterMillis: isSoon ? SOON_MILLIS : INTERVAL_MILLIS,
              isUnchanged,
              presentName: access.path
            }
            return polled
          }))
      )
    )
  })
})

/** Fails if the address of GitLab cannot be parsed. */
export const layer = (options: GitLabApi.Options): Layer.Layer<RepositoryNews, SourceHostError> =>
  Layer.effect(RepositoryNews, make(options))
