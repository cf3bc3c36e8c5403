/** Listeners for news of repositories: what begins when a person comments, labels or reviews. `HandleNews` calls them. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { RepoNotAccessible, SourceHostError } from "./SourceHost.ts"
import type { News, PullNews } from "./SourceHostEvents.ts"

/** News with the name by which the repository is followed. A pull request has its branch. */
export type HeardNews = Exclude<News, PullNews> | PullNews & { readonly branch: string }

/**
 * Handles one piece of news. A listener decides which are its own, and may get the same twice, late and out of order. After a failure
 * with `StoreUnavailable`, or a `SourceHostError` that is retryable, polled news are given again.
 */
export type NewsListener = (news: HeardNews) => Effect.Effect<void, RepoNotAccessible | SourceHostError | StoreUnavailable>

const ignored: NewsListener = () => Effect.void

/** The listener of feedback on pull requests. The composition replaces the default, which does nothing. */
export const FeedbackListener = Context.Reference<NewsListener>("@slipway/domain/FeedbackListener", { defaultValue: () => ignored })

/** The listener of automations. The composition replaces the default, which does nothing. */
export const AutomationsListener = Context.Reference<NewsListener>("@slipway/domain/AutomationsListener", { defaultValue: () => ignored })
