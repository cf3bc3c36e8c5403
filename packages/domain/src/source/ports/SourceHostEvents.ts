/** Port: events that a source host sends over the web, if the operator has configured them. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { RepoName } from "../schema/RepoRef.ts"

/** The signature of the request is invalid. Sending it again does not help. */
export class NotAuthentic extends Schema.TaggedError<NotAuthentic>()("NotAuthentic", {}) {
  override get message() {
    return "The signature is not the source host's."
  }
}

/** A received request. */
export interface SignedNews {
  /** Headers by lower-case name. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** The exact received text, because the signature covers its bytes. */
  readonly body: string
}

/** The account that wrote or labelled, as the host names it. */
export interface NewsAuthor {
  /** The host's id, which stays when the account is renamed. */
  readonly id: string
  readonly login: string
  /** A program's account, such as an App's. */
  readonly isBot: boolean
}

/** The longest title of {@link Said}, in characters. The rest is cut. */
export const MAX_NEWS_TITLE = 256
/** The longest body of {@link Said}, in characters. The rest is cut. GitHub's comments have at most 65,536. */
export const MAX_NEWS_BODY = 60_000

/** A text of an issue or pull request. Its content is not trusted. */
export interface Said {
  /**
   * The host's id, the same from webhooks and polling, so that a reader can handle each once. At most 255 characters. Unique at the host
   * among news of the same `_tag`.
   */
  readonly id: string
  readonly repo: RepoName
  /** The number of the issue or pull request. */
  readonly number: number
  readonly isPull: boolean
  /** The title of the issue or pull request. At most {@link MAX_NEWS_TITLE} characters. */
  readonly title: string
  /** At most {@link MAX_NEWS_BODY} characters. */
  readonly body: string
  readonly url: string
  readonly author: NewsAuthor
  readonly at: DateTime.Utc
}

/** Either `branch` or `number` is not null. `number: null`: the branch may have a pull request. */
export interface PullNews {
  readonly _tag: "Pull"
  readonly repo: RepoName
  readonly branch: string | null
  readonly number: number | null
}

/**
 * News of a repository. They may come twice, late and out of order. `Pull`: a pull request changed (review, comment, check, push, close).
 * The change itself has to be asked for. `Comment`: a new comment, or the text of a new issue or pull request. `Labelled`: a label was
 * added; `author` is who added it, and `body` the text. `Renamed`: the repository has a new name or owner. `Missed`: some news
 * of the repository are lost, so each followed pull request counts as changed.
 */
export type News =
  | PullNews
  | { readonly _tag: "Comment" } & Said
  | { readonly _tag: "Labelled"; readonly label: string } & Said
  | { readonly _tag: "Renamed"; readonly from: RepoName; readonly repo: RepoName }
  | { readonly _tag: "Missed"; readonly repo: RepoName }

/** Reads events of the source host. */
export class SourceHostEvents extends Context.Service<SourceHostEvents, {
  /** Empty: authentic but irrelevant. */
  read(sent: SignedNews): Effect.Effect<ReadonlyArray<News>, NotAuthentic | StoreUnavailable>
}>()("@slipway/domain/SourceHostEvents") {}
