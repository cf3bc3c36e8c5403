/** Port: asks the source host for the news of a repository, where it sends none by itself. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type { RepoName } from "../schema/RepoRef.ts"
import type { RepoNotAccessible, SourceHostError } from "./SourceHost.ts"
import type { News } from "./SourceHostEvents.ts"

/** The longest cursor, in characters. */
export const MAX_CURSOR = 32_768

/** The answer to one poll. */
export interface PolledNews {
  /** Oldest first. `repo` is the name that was asked for. News may have come with earlier polls. */
  readonly news: ReadonlyArray<News>
  /** For the next poll, at most {@link MAX_CURSOR} characters. It covers everything that is not in an earlier answer. */
  readonly cursor: string
  /** The least time until the next poll, by the host's wish. */
  readonly pollAfterMillis: number
  /** The host answered that nothing changed, which costs none of its rate limit. */
  readonly isUnchanged: boolean
  /** The host's name for the repository now. */
  readonly presentName: RepoName
}

/** A host without it sends all its news by itself, such as the local one. */
export class RepositoryNews extends Context.Service<RepositoryNews, {
  /**
   * Sends at most one request for news to the host. `cursor: null`: news since `since`. A poll may look at a part of the news only; the
   * next ones then look at the rest. Repeating a cursor repeats its news.
   */
  poll(repo: RepoName, from: { readonly cursor: string | null; readonly since: DateTime.Utc }): Effect.Effect<
    PolledNews,
    RepoNotAccessible | SourceHostError
  >
}>()("@slipway/domain/RepositoryNews") {}
