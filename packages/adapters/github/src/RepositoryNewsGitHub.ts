/**
 * `RepositoryNews` on GitHub: one conditional request a poll, in turn for pull requests, workflow runs and events. GitHub's list of
 * events has all news of people, but may lag: "event latency can be anywhere from 30s to 6h". So changes of pull requests come from
 * their own list, which does not lag. The list of events has no checks.
 * https://docs.github.com/en/rest/activity/events
 */
import { type PolledNews, RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import type { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { News } from "@slipway/domain/source/ports/SourceHostEvents"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { DateTime, Duration, Effect, Layer, Option, Schema } from "effect"
import * as GitHubApi from "./GitHubApi.ts"
import { type Access, onStatus } from "./GitHubApi.ts"
import { authorOf, newsOf } from "./News.ts"
import { type HeldTokens, withHeldToken } from "./RepositoryTokens.ts"
import { within } from "./Within.ts"

const PER_PAGE = 100
/** GitHub keeps 300 events. */
const MAXIMUM_EVENTS = 300
/** The least time between two polls of a repository, also if GitHub names none. */
const INTERVAL_SECONDS = 60

const TURNS = ["pulls", "events", "pulls", "runs"] as const

const Cursor = Schema.Struct({
  /** Index of {@link TURNS}. */
  turn: Counter,
  /** `updated_at` of the newest pull request and workflow run that are known. */
  pulls: Schema.String,
  runs: Schema.String,
  /** Events since then are news. */
  eventsSince: Schema.String,
  /** Ids of known events, newest first. */
  events: Schema.Array(Schema.String),
  /** The page of events to read next; above 1 while older events are unread. */
  page: Counter,
  tags: Schema.Record(Schema.String, Schema.String)
})
type Cursor = typeof Cursor.Type
const CursorText = Schema.fromJsonString(Cursor)

const Pulls = Schema.Array(Schema.Struct({
  number: Counter,
  updated_at: Schema.String,
  head: Schema.Struct({ ref: Schema.String })
}))
const Runs = Schema.Struct({
  workflow_runs: Schema.Array(Schema.Struct({
    status: Schema.NullOr(Schema.String),
    updated_at: Schema.String,
    head_branch: Schema.NullOr(Schema.String)
  }))
})
const Events = Schema.Array(Schema.Struct({
  id: Schema.String,
  type: Schema.NullOr(Schema.String),
  actor: Schema.optionalKey(Schema.NullOr(Schema.Struct({ id: Counter, login: Schema.String }))),
  created_at: Schema.NullOr(Schema.String),
  payload: Schema.Unknown
}))

/** `PullRequestReviewCommentEvent` → `pull_request_review_comment`. */
const webhookName = (type: string): string =>
  type.replace(/Event$/u, "").replaceAll(/(?<!^)[A-Z]/gu, (letter) => `_${letter}`).toLowerCase()

/** Times of GitHub, which have the same form. */
const newestOf = (times: ReadonlyArray<string>, known: string): string => times.reduce((a, b) => a > b ? a : b, known)

interface Read {
  readonly news: ReadonlyArray<News>
  readonly cursor: Cursor
}

/** More changed than a page has. */
const missed = (repo: RepoName): ReadonlyArray<News> => [{ _tag: "Missed", repo }]

const readPulls = (repo: RepoName, cursor: Cursor, pulls: typeof Pulls.Type): Read => {
  const changed = pulls.filter(({ updated_at }) => updated_at >= cursor.pulls)
  const news = changed.map(({ head, number }): News => ({ _tag: "Pull", repo, branch: head.ref, number }))
  return {
    // The newest is first. Of the second of the newest known one, more may have come.
    news: changed.length === PER_PAGE ? missed(repo) : news.toReversed(),
    cursor: { ...cursor, pulls: newestOf(pulls.map(({ updated_at }) => updated_at), cursor.pulls) }
  }
}

const readRuns = (repo: RepoName, cursor: Cursor, { workflow_runs: runs }: typeof Runs.Type): Read => {
  const changed = runs.filter(({ updated_at }) => updated_at >= cursor.runs)
  const branches = new Set(
    changed.flatMap(({ head_branch, status }) => status === "completed" && head_branch !== null ? [head_branch] : [])
  )
  return {
    news: changed.length === PER_PAGE
      ? missed(repo)
      : [...branches].toReversed().map((branch) => ({ _tag: "Pull", repo, branch, number: null })),
    cursor: { ...cursor, runs: newestOf(runs.map(({ updated_at }) => updated_at), cursor.runs) }
  }
}

const readEvents = (repo: RepoName, cursor: Cursor, events: typeof Events.Type): Read => {
  const known = new Set(cursor.events)
  const isOld = ({ created_at, id }: typeof Events.Type[number]) => known.has(id) || (created_at ?? "") < cursor.eventsSince
  const fresh = events.filter((event) => !isOld(event))
  const news = fresh.toReversed().flatMap(({ actor, created_at, payload, type }) =>
    newsOf({
      name: webhookName(type ?? ""),
      payload,
      repo,
      at: Option.getOrElse(DateTime.make(created_at ?? ""), () => DateTime.makeUnsafe(0)),
      actor: authorOf(actor)
    })
  )
  // Events come late, so that an old one does not show that all older ones are known. A full page of new ones shows that some are not.
  const isFull = fresh.length === PER_PAGE
  const isLost = isFull && cursor.page * PER_PAGE >= MAXIMUM_EVENTS
  return {
    news: isLost ? [...news, ...missed(repo)] : news,
    cursor: {
      ...cursor,
      page: isFull && !isLost ? cursor.page + 1 : 1,
      events: [...new Set([...cursor.page === 1 ? [] : cursor.events, ...events.map(({ id }) => id), ...cursor.events])]
        .slice(0, MAXIMUM_EVENTS + PER_PAGE)
    }
  }
}

/** The first poll asks for everything since then. GitHub's times have whole seconds. */
const first = (since: DateTime.Utc): Cursor => {
  const at = DateTime.formatIso(DateTime.startOf(since, "second")).replace(/\.\d+Z$/u, "Z")
  return { turn: 0, pulls: at, runs: at, eventsSince: at, events: [], page: 1, tags: {} }
}

/** An unreadable cursor was written by another version: everything may be news. */
const cursorOf = (text: string | null, since: DateTime.Utc): Cursor =>
  text === null ? first(since) : Option.getOrElse(Schema.decodeUnknownOption(CursorText)(text), () => first(since))

/** `seconds`: GitHub's `X-Poll-Interval`. */
const pollAfter = (seconds: number): number => 1000 * Math.max(INTERVAL_SECONDS, Number.isFinite(seconds) ? seconds : 0)

const make = Effect.fnUntraced(function*(options: GitHubApi.Options) {
  const api = yield* GitHubApi.make(options)
  const held: HeldTokens = new Map()

  const ask = Effect.fnUntraced(function*(access: Access, repo: RepoName, cursor: Cursor, feed: typeof TURNS[number]) {
    const path = { pulls: "/pulls", runs: "/actions/runs", events: "/events" }[feed]
    const query = {
      pulls: { state: "all", sort: "updated", direction: "desc", per_page: PER_PAGE },
      runs: { per_page: PER_PAGE },
      events: { per_page: PER_PAGE, page: cursor.page }
    }[feed]
    const tag = cursor.tags[feed]
    const isConditional = tag !== undefined && !(feed === "events" && cursor.page > 1)
    const answer = yield* api.request(access, "GET", path, query, isConditional ? { "if-none-match": tag } : {}).pipe(
      onStatus(304, ({ pollInterval = 0 }) => Effect.succeed({ unchanged: true, pollInterval })),
      // An Enterprise host may have no Actions.
      feed === "runs" ? onStatus(404, () => Effect.succeed({ unchanged: false, pollInterval: 0 })) : (self) => self
    )
    if ("unchanged" in answer) {
      return { read: { news: [], cursor }, after: pollAfter(answer.pollInterval), isUnchanged: answer.unchanged }
    }
    const read = feed === "pulls"
      ? readPulls(repo, cursor, yield* api.decode(Pulls, answer))
      : feed === "runs"
      ? readRuns(repo, cursor, yield* api.decode(Runs, answer))
      : readEvents(repo, cursor, yield* api.decode(Events, answer))
    const { etag } = answer.headers
    const { [feed]: _, ...others } = cursor.tags
    // While older events are unread, the tag would hide them.
    const tags = etag === undefined || etag.length > 200 || read.cursor.page > 1 ? others : { ...others, [feed]: etag }
    const after = pollAfter(Number(answer.headers["x-poll-interval"] ?? 0))
    return { read: { ...read, cursor: { ...read.cursor, tags } }, after, isUnchanged: false }
  })

  return RepositoryNews.of({
    poll: Effect.fn("RepositoryNews.poll")((repo, { cursor: text, since }) =>
      within(
        "read the news of the repository",
        repo,
        withHeldToken(api, held, repo, (access) =>
          Effect.gen(function*() {
            const cursor = cursorOf(text, since)
            const may = (feed: typeof TURNS[number]) => feed !== "runs" || access.permissions["actions"] !== undefined
            const planned = cursor.page > 1 ? "events" : TURNS[cursor.turn % TURNS.length] ?? "pulls"
            const { after, isUnchanged, read } = yield* ask(access, repo, cursor, may(planned) ? planned : "pulls")
            const turn = cursor.page > 1 ? cursor.turn : (cursor.turn + 1) % TURNS.length
            const polled: PolledNews = {
              news: read.news,
              cursor: JSON.stringify({ ...read.cursor, turn } satisfies Cursor),
              pollAfterMillis: after,
              isUnchanged,
              presentName: RepoName.make(`${access.owner}/${access.name}`)
            }
            return polled
          }), { for: Duration.minutes(50), most: 2000 })
      )
    )
  })
})

/** Fails if the App's key cannot be parsed. */
export const layer = (options: GitHubApi.Options): Layer.Layer<RepositoryNews, SourceHostError> =>
  Layer.effect(RepositoryNews, make(options))
