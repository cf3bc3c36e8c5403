/** Handles news of repositories, from webhooks and from polling. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { FollowedRepositories } from "../../source/ports/FollowedRepositories.ts"
import { AutomationsListener, FeedbackListener, type HeardNews, type NewsListener } from "../../source/ports/NewsListeners.ts"
import { SourceHost } from "../../source/ports/SourceHost.ts"
import type { News } from "../../source/ports/SourceHostEvents.ts"
import { Publishing } from "./Publishing.ts"

type Handled = ReturnType<NewsListener>

/** Gives each piece of news to everything that follows it. */
export class HandleNews extends Context.Service<HandleNews, {
  /**
   * Handles news that the host sent by itself. A repository has the host's present name there: listeners get the news for each name by
   * which it is followed. Safe to repeat.
   */
  sent(news: News): Handled
  /**
   * Handles news of a poll, which have the name by which the repository is followed: records what the source host now says of the pull
   * request, and calls the listeners. Each gets the news, also if another fails. Safe to repeat.
   */
  polled(news: News): Handled
}>()("@slipway/domain/HandleNews") {
  static readonly layer = Layer.effect(
    HandleNews,
    Effect.gen(function*() {
      const publishing = yield* Publishing
      const host = yield* SourceHost
      const followed = Option.getOrNull(yield* Effect.serviceOption(FollowedRepositories))
      const listeners: ReadonlyArray<NewsListener> = [yield* FeedbackListener, yield* AutomationsListener]

      const follow: NewsListener = (news) => news._tag === "Pull" ? publishing.follow(news.repo, news.branch) : Effect.void

      const give = Effect.fnUntraced(function*(to: ReadonlyArray<NewsListener>, news: HeardNews) {
        const ends = yield* Effect.forEach(to, (listener) => Effect.exit(listener(news)))
        for (const end of ends) yield* end
      })

      /** `null`: a deleted pull request, or a pull request from a fork. Its branch is not ours. */
      const withBranch = Effect.fnUntraced(function*(news: News) {
        if (news._tag !== "Pull") return news
        const { branch, number } = news
        if (branch !== null) return { ...news, branch }
        if (number === null) return null
        return { ...news, branch: (yield* host.pullRequestDetails(news.repo, number)).pullRequest.headRef }
      })

      const polled = Effect.fn("HandleNews.polled")(function*(news: News) {
        const heard = yield* withBranch(news)
        if (heard !== null) yield* give([follow, ...listeners], heard)
      })

      return HandleNews.of({
        polled,
        sent: Effect.fn("HandleNews.sent")(function*(news) {
          // Sandboxes whose repository is not followed have pull requests too. Comments change none, so their branch is not asked for.
          if (news._tag === "Pull" && news.branch !== null) yield* publishing.follow(news.repo, news.branch)
          if (followed === null) return
          if (news._tag === "Renamed") yield* followed.renamed(news.from, news.repo)
          for (const repo of yield* followed.heard(news.repo, yield* DateTime.now)) {
            const heard = yield* withBranch({ ...news, repo })
            if (heard !== null) yield* give(repo === news.repo ? listeners : [follow, ...listeners], heard)
          }
        })
      })
    })
  )
}
