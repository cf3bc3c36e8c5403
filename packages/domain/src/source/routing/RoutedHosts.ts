/** Several source hosts as one: the ports of a source host over all of them. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { PullRequestFeedback } from "../ports/PullRequestFeedback.ts"
import { PullRequests } from "../ports/PullRequests.ts"
import { RepositoryNews } from "../ports/RepositoryNews.ts"
import { SourceHost } from "../ports/SourceHost.ts"
import { SourceHostEvents } from "../ports/SourceHostEvents.ts"
import * as HostRoutes from "./HostRoutes.ts"
import * as RoutedNews from "./RoutedNews.ts"
import * as RoutedPullRequests from "./RoutedPullRequests.ts"
import * as RoutedSourceHost from "./RoutedSourceHost.ts"

/**
 * `hosts`: in the order in which they own names. Needs `RepositoryAliases`. `RepositoryNews`, `SourceHostEvents` and `PullRequests` are
 * there if one of the hosts has them.
 */
export const layer = <E, R>(hosts: Effect.Effect<ReadonlyArray<HostRoutes.RoutedHost>, E, R>) =>
  Layer.effectContext(Effect.gen(function*() {
    const list = yield* hosts
    const routes = yield* HostRoutes.make(list)
    const present: Context.Context<never> = Context.empty().pipe(
      list.some(({ news }) => news !== null) ? Context.add(RepositoryNews, RoutedNews.news(routes)) : (self) => self,
      list.some(({ events }) => events !== null) ? Context.add(SourceHostEvents, RoutedNews.events(routes)) : (self) => self,
      Context.add(PullRequests, RoutedPullRequests.make(routes))
    )
    return Context.make(SourceHost, yield* RoutedSourceHost.make(routes)).pipe(
      Context.add(PullRequestFeedback, RoutedNews.feedback(routes)),
      Context.merge(present)
    )
  }))
