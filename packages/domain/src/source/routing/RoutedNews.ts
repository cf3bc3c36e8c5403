/**
 * Feedback and news of several hosts. News of a host count for its own repositories alone: a host, or a person with the secret of its
 * webhooks, must not speak for the repositories of another one.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { PullRequestFeedback } from "../ports/PullRequestFeedback.ts"
import { RepositoryNews } from "../ports/RepositoryNews.ts"
import { type News, NotAuthentic, SourceHostEvents } from "../ports/SourceHostEvents.ts"
import type { RepoName } from "../schema/RepoRef.ts"
import type { HostRoutes, RoutedHost } from "./HostRoutes.ts"

/** The time until a host that sends all news by itself is asked again: it may be another host then. */
const UNASKED = Duration.toMillis(Duration.hours(1))

/** The host of each repository does the work. */
export const feedback = ({ at }: HostRoutes) =>
  PullRequestFeedback.of({
    read: (repo, number, options) => at("read the feedback", repo, ({ host, path }) => host.feedback.read(path, number, options)),
    reply: (repo, number, key, text) =>
      at("reply on the pull request", repo, ({ host, path }) => host.feedback.reply(path, number, key, text))
  })

/** News with the service's names, or none if the repository does not belong to the host. */
const named = Effect.fnUntraced(function*({ nameAt }: HostRoutes, host: RoutedHost, news: News) {
  const repo = yield* nameAt(host, news.repo)
  if (repo === null) return []
  if (news._tag !== "Renamed") return [{ ...news, repo }]
  const from = yield* nameAt(host, news.from)
  return from === null ? [] : [{ ...news, repo, from }]
})

/** Polls the host of the repository. News have the name that was asked for. */
export const news = (routes: HostRoutes) =>
  RepositoryNews.of({
    poll: (repo, from) =>
      routes.at("read the news of the repository", repo, ({ host, path }) =>
        Effect.gen(function*() {
          if (host.news === null) return { news: [], cursor: "", pollAfterMillis: UNASKED, isUnchanged: true, presentName: repo }
          const polled = yield* host.news.poll(path, from)
          const presentName: RepoName = (yield* routes.nameAt(host, polled.presentName)) ?? repo
          return { ...polled, news: polled.news.map((one) => ({ ...one, repo })), presentName }
        }))
  })

/** Each host looks at the signature with its own secret. */
export const events = (routes: HostRoutes) =>
  SourceHostEvents.of({
    read: Effect.fn("SourceHostEvents.read")(function*(sent) {
      let isAuthentic = false
      const all: Array<News> = []
      for (const host of routes.hosts) {
        if (host.events === null) continue
        const read = yield* Effect.catchTag(host.events.read(sent), "NotAuthentic", () => Effect.succeed(null))
        if (read === null) continue
        isAuthentic = true
        for (const one of read) all.push(...yield* named(routes, host, one))
      }
      return isAuthentic ? all : yield* new NotAuthentic()
    })
  })
