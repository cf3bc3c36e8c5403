/**
 * `RepositoryNews` on Forgejo and Gitea: one request a poll. The list of changed issues, which has pull requests too, takes turns with the
 * list of jobs of Actions. Each changed issue is then asked for its timeline, because only that has comments, reviews and labels with
 * their authors; an issue with a new label is asked for its text. The servers send no entity tags, so that each poll costs a request.
 */
import { type PolledNews, RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import type { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { MAX_NEWS_TITLE, type News as SourceNews } from "@slipway/domain/source/ports/SourceHostEvents"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Counter } from "@slipway/domain/text/Text"
import { onStatus } from "@slipway/rest-host/RestApi"
import { within } from "@slipway/rest-host/Within"
import { DateTime, Duration, Effect, Layer, Option, Schema } from "effect"
import * as ForgejoApi from "./ForgejoApi.ts"
import { PER_PAGE, type Place, placeOf } from "./ForgejoApi.ts"
import * as News from "./News.ts"
import * as Timeline from "./Timeline.ts"

type Api = ForgejoApi.ForgejoApi

const TURNS = ["issues", "runs"] as const

/** A change may become visible this long after its time, because it is committed later. */
const OVERLAP = Duration.seconds(30)
/** A change in the server's present second may be followed by another one with the same time. */
const SETTLED_MILLIS = 2_000
/** Entries of the cursor's lists, and characters of its waiting ones: all of it stays below `MAX_CURSOR`. */
const MAXIMUM_SEEN = 300
const MAXIMUM_WAITING_CHARACTERS = 12_000
const MAXIMUM_ADDED = 10
const MAXIMUM_ADDED_CHARACTERS = 8_000

const Added = Schema.Struct({
  id: Counter,
  label: Schema.String,
  author: Schema.Struct({ id: Schema.String, login: Schema.String, isBot: Schema.Boolean }),
  at: Schema.String
})
/** A changed issue. */
const Waiting = Schema.Struct({
  number: Counter,
  isPull: Schema.Boolean,
  title: Schema.String,
  /** Entries of its timeline since then are news. */
  since: Schema.String,
  /** The page of the timeline to read next. */
  page: Counter,
  /** Labels that were added, if its timeline was read: its text is to be read. */
  added: Schema.optionalKey(Schema.Array(Added))
})
const Cursor = Schema.Struct({
  /** Index of {@link TURNS}. */
  turn: Counter,
  /** Whether the last poll was for a waiting issue: the next one is not. */
  served: Schema.Boolean,
  /** Changes before are no news. */
  origin: Schema.String,
  /** Issues that changed since are listed. */
  since: Schema.String,
  /** The page of that list to read next, and the newest change on the earlier ones. */
  page: Counter,
  newest: Schema.String,
  /** Entries of the earlier pages. */
  listed: Counter,
  /** Known changes since `since`: the number of the issue, and the time. */
  seen: Schema.Array(Schema.String),
  waiting: Schema.Array(Waiting),
  /** `updated_at` of the newest known job. */
  runs: Schema.String
})
type Cursor = typeof Cursor.Type
const CursorText = Schema.fromJsonString(Cursor)

const Issues = Schema.NullOr(Schema.Array(News.Issue))
const Tasks = Schema.Struct({
  workflow_runs: Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.Struct({
    status: Schema.String,
    updated_at: Schema.String,
    head_branch: Schema.String,
    event: Schema.optionalKey(Schema.NullOr(Schema.String))
  }))))
})

const RUNNING: ReadonlySet<string> = new Set(["waiting", "running", "blocked", "unknown", "queued", "in_progress", "pending"])

/** The pull request or branch of a run: `#7` stands for the pull request 7. */
export const pullOfRun = (repo: RepoName, ref: string, event: string | null | undefined): SourceNews => {
  const number = event?.startsWith("pull_request") === true ? Number(/^#(?<number>\d{1,15})$/u.exec(ref)?.groups?.["number"]) : Number.NaN
  return Number.isSafeInteger(number) ? News.changed(repo, number) : { _tag: "Pull", repo, branch: ref, number: null }
}

const millisOf = (text: string): number => News.instantOf(text).epochMilliseconds
const later = (a: string, b: string): string => millisOf(a) >= millisOf(b) ? a : b

interface Read {
  readonly news: ReadonlyArray<SourceNews>
  readonly cursor: Cursor
  readonly presentName?: RepoName
}

const isRepoName = Schema.is(RepoName)

const readIssues = Effect.fnUntraced(function*(api: Api, place: Place, repo: RepoName, cursor: Cursor) {
  const query = { state: "all", since: cursor.since, limit: PER_PAGE, page: cursor.page }
  const answer = yield* api.request(place, "/issues", { method: "GET", query }).pipe(
    // A repository without issues and pull requests.
    onStatus(404, () => api.absent(place, Effect.succeed(null)))
  )
  const issues = answer === null ? [] : (yield* api.decode(Issues, answer)) ?? []
  const serverMillis = Date.parse(answer?.headers.get("date") ?? "")
  const seen = new Set(cursor.seen)
  const numbers = new Set(cursor.seen.map((key) => Number(key.split("@")[0])))
  const news: Array<SourceNews> = []
  const waiting = [...cursor.waiting]
  let newest = cursor.newest
  let isComplete = true
  for (const issue of issues) {
    const key = `${issue.number}@${millisOf(issue.updated_at)}`
    // Some accounts may date changes into the future.
    if (!(millisOf(issue.updated_at) > serverMillis)) newest = later(newest, issue.updated_at)
    if (seen.has(key)) continue
    const entry = {
      number: issue.number,
      isPull: News.isPull(issue),
      title: News.cut(issue.title, MAX_NEWS_TITLE),
      since: later(cursor.since, cursor.origin),
      page: 1
    }
    const known = waiting.findIndex(({ added, number }) => number === issue.number && added === undefined)
    if (known !== -1) waiting.splice(known, 1, { ...entry, since: waiting[known]?.since ?? entry.since })
    else if (JSON.stringify([...waiting, entry]).length > MAXIMUM_WAITING_CHARACTERS && waiting.length > 0) {
      // The rest of the page is read again, once there is room for it.
      isComplete = false
      break
    } else waiting.push(entry)
    if (entry.isPull) news.push(News.changed(repo, issue.number))
    if (!numbers.has(issue.number) && millisOf(issue.created_at) >= millisOf(entry.since) && issue.repository != null) {
      news.push(News.opened(repo, issue.repository.id, issue, yield* api.ownId(place)))
    }
    if (serverMillis - millisOf(issue.updated_at) >= SETTLED_MILLIS) seen.add(key)
  }
  const listed = cursor.listed + issues.length
  const isLast = answer === null || ForgejoApi.isLast(answer, issues.length, listed)
  const from = DateTime.subtractDuration(News.instantOf(newest), OVERLAP)
  const since = isLast && isComplete ? later(cursor.since, Timeline.secondsOf(from)) : cursor.since
  const name = issues[0]?.repository?.full_name
  const read: Read = {
    news: news.toReversed(),
    cursor: {
      ...cursor,
      since,
      page: !isComplete ? cursor.page : isLast ? 1 : cursor.page + 1,
      listed: !isComplete ? cursor.listed : isLast ? 0 : listed,
      newest,
      seen: [...seen].filter((key) => Number(key.split("@")[1]) >= millisOf(since)).slice(-MAXIMUM_SEEN),
      waiting
    },
    ...(isRepoName(name) ? { presentName: name } : {})
  }
  return read
})

/** Reads the first waiting issue: its timeline, or its text for the labels that were added. */
const readWaiting = Effect.fnUntraced(
  function*(
    api: Api,
    place: Place,
    repo: RepoName,
    cursor: Cursor,
    [first, ...rest]: readonly [typeof Waiting.Type, ...Cursor["waiting"]]
  ) {
    if (first.added !== undefined) {
      const issue = yield* api.get(place, `/issues/${first.number}`, News.Issue).pipe(
        // It was deleted.
        onStatus(404, () => api.absent(place, Effect.succeed(null)))
      )
      const labelled = issue === null ? [] : first.added.map((added) => News.labelled(repo, issue, added))
      const read: Read = { news: labelled, cursor: { ...cursor, waiting: rest } }
      return read
    }
    const { entries, isLast } = yield* Timeline.page(api, place, first.number, first.since, first.page)
    const own = entries.length === 0 ? null : yield* api.ownId(place)
    const added = entries.flatMap((entry) => News.addedOf(entry, own) ?? []).slice(0, MAXIMUM_ADDED)
    while (JSON.stringify(added).length > MAXIMUM_ADDED_CHARACTERS) added.pop()
    const read: Read = {
      news: entries.filter(News.isText).map((entry) => News.written(repo, first, entry, own)),
      cursor: {
        ...cursor,
        // Only one issue at a time has labels that wait.
        waiting: [...added.length === 0 ? [] : [{ ...first, added }], ...isLast ? [] : [{ ...first, page: first.page + 1 }], ...rest]
      }
    }
    return read
  }
)

const readRuns = Effect.fnUntraced(function*(api: Api, place: Place, repo: RepoName, cursor: Cursor) {
  const { workflow_runs: tasks } = yield* api.get(place, "/actions/tasks", Tasks, { limit: PER_PAGE, page: 1 }).pipe(
    // A server or a repository without Actions.
    onStatus(404, () => api.absent(place, Effect.succeed({ workflow_runs: [] }))),
    onStatus(403, () => Effect.succeed({ workflow_runs: [] }))
  )
  const changed = (tasks ?? []).filter(({ updated_at }) => millisOf(updated_at) >= millisOf(cursor.runs))
  const ended = changed.filter(({ status }) => !RUNNING.has(status)).toReversed()
  const news = new Map(ended.map(({ event, head_branch }) => [`${event} ${head_branch}`, pullOfRun(repo, head_branch, event)]))
  const read: Read = {
    // More changed than a page has.
    news: changed.length > 0 && changed.length === (tasks ?? []).length && changed.length >= PER_PAGE
      ? [{ _tag: "Missed", repo }]
      : [...news.values()],
    cursor: { ...cursor, runs: changed.reduce((newest, { updated_at }) => later(newest, updated_at), cursor.runs) }
  }
  return read
})

/** The first poll asks for everything since then. The servers' times have whole seconds. */
const first = (since: DateTime.Utc): Cursor => {
  const at = Timeline.secondsOf(since)
  return { turn: 0, served: false, origin: at, since: at, page: 1, listed: 0, newest: at, seen: [], waiting: [], runs: at }
}

/** An unreadable cursor was written by another version: everything may be news. */
const cursorOf = (text: string | null, since: DateTime.Utc): Cursor =>
  text === null ? first(since) : Option.getOrElse(Schema.decodeUnknownOption(CursorText)(text), () => first(since))

const poll = Effect.fnUntraced(function*(api: Api, repo: RepoName, cursor: Cursor) {
  const place = placeOf(repo)
  const [waiting, ...others] = cursor.waiting
  const serves = waiting !== undefined && !cursor.served
  const turn = serves ? cursor.turn : (cursor.turn + 1) % TURNS.length
  const read = serves
    ? yield* readWaiting(api, place, repo, cursor, [waiting, ...others])
    : TURNS[cursor.turn % TURNS.length] === "runs"
    ? yield* readRuns(api, place, repo, cursor)
    : yield* readIssues(api, place, repo, cursor)
  const polled: PolledNews = {
    news: read.news,
    cursor: JSON.stringify({ ...read.cursor, turn, served: serves } satisfies Cursor),
    // The servers name no time.
    pollAfterMillis: 0,
    isUnchanged: false,
    presentName: read.presentName ?? place.name
  }
  return polled
})

const make = Effect.fnUntraced(function*(options: ForgejoApi.Options) {
  const api = yield* ForgejoApi.make(options)
  return RepositoryNews.of({
    poll: Effect.fn("RepositoryNews.poll")((repo, { cursor, since }) =>
      within("read the news of the repository", repo, poll(api, repo, cursorOf(cursor, since)))
    )
  })
})

/** Fails if the address cannot be used. */
export const layer = (options: ForgejoApi.Options): Layer.Layer<RepositoryNews, SourceHostError> =>
  Layer.effect(RepositoryNews, make(options))
