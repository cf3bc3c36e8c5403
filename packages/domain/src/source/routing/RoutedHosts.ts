/** Several source hosts as one: `SourceHost`, `PullRequestFeedback`, `RepositoryNews` and `SourceHostEvents` over all of them. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { PullRequestFeedback } from "../ports/PullRequestFeedback.ts"
import { RepositoryNews } from "../ports/RepositoryNews.ts"
import { SourceHost } from "../ports/SourceHost.ts"
import { SourceHostEvents } from "../ports/SourceHostEvents.ts"
import * as HostRoutes from "./HostRoutes.ts"
import * as RoutedNews from "./RoutedNews.ts"
import * as RoutedSourceHost from "./RoutedSourceHost.ts"

/** `hosts`: in the order in which they own names. Needs `RepositoryAliases`. */
export const layer = <E, R>(hosts: Effect.Effect<ReadonlyArray<HostRoutes.RoutedHost>, E, R>) =>
  Layer.effectContext(Effect.gen(function*() {
    const routes = yield* HostRoutes.make(yield* hosts)
    return Context.make(SourceHost, yield* RoutedSourceHost.make(routes)).pipe(
      Context.add(PullRequestFeedback, RoutedNews.feedback(routes)),
      Context.add(RepositoryNews, RoutedNews.news(routes)),
      Context.add(SourceHostEvents, RoutedNews.events(routes))
    )
  }))
