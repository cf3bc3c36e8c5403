/** Handles news of repositories, from webhooks and from polling. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { AutomationsListener, FeedbackListener, type NewsListener } from "../../source/ports/NewsListeners.ts"
import { Publishing } from "./Publishing.ts"

/** Gives each piece of news to everything that follows it. */
export class HandleNews extends Context.Service<HandleNews, {
  /**
   * Records what the source host now says of the pull request, and calls the listeners. Each gets the news, also if another fails. Safe
   * to repeat.
   */
  readonly handle: NewsListener
}>()("@slipway/domain/HandleNews") {
  static readonly layer = Layer.effect(
    HandleNews,
    Effect.gen(function*() {
      const publishing = yield* Publishing
      const listeners: ReadonlyArray<NewsListener> = [
        (news) => news._tag === "Pull" ? publishing.follow(news.repo, news.branch) : Effect.void,
        yield* FeedbackListener,
        yield* AutomationsListener
      ]
      return HandleNews.of({
        handle: Effect.fn("HandleNews.handle")(function*(news) {
          const ends = yield* Effect.forEach(listeners, (listener) => Effect.exit(listener(news)))
          for (const end of ends) yield* end
        })
      })
    })
  )
}
