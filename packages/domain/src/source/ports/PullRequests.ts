/**
 * Port: reading, merging and closing pull requests of a source host without pages. Checked by `PullRequestsContract`. Their state comes
 * from `SourceHost`.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { PullRequest } from "../schema/PullRequest.ts"
import { RepoName } from "../schema/RepoRef.ts"
import type { SourceHostError } from "./SourceHost.ts"

/** The request is not possible in the present state. Nothing was changed. */
export class PullRequestRefused extends Schema.TaggedError<PullRequestRefused>()("PullRequestRefused", {
  repo: RepoName,
  /** `null`: it concerns the repository. */
  number: Schema.NullOr(Schema.Int),
  /** `outdated`: the branch is no longer at the given commit. `moved`: the base branch moved meanwhile; a retry helps. */
  reason: Schema.Literals([
    "unknown repository",
    "unknown number",
    "unreadable",
    "closed",
    "merged",
    "no base",
    "no commit",
    "nothing in common",
    "merged without a merge commit",
    "too large",
    "checked out",
    "conflict",
    "outdated",
    "moved"
  ]),
  /** Sentences for the operator with a remedy. They may contain folders of the machine. */
  detail: Schema.String
}) {
  override get message() {
    return `${this.repo}${this.number === null ? "" : ` #${this.number}`}: ${this.detail}`
  }
}

type Trouble = PullRequestRefused | SourceHostError | StoreUnavailable

/** The end of a pull request. */
export interface Ended {
  readonly pullRequest: PullRequest
  /** `false`: it had ended before, and nothing was done. */
  readonly changed: boolean
}

/** The newest commits of a pull request that are listed. */
export const MAX_COMMITS = 50
/** Characters of the title of a commit, and of the name of its author. */
export const MAX_COMMIT_TITLE = 200

/** A commit of a pull request. Its texts are untrusted. */
export interface PullRequestCommit {
  readonly sha: string
  /** The first {@link MAX_COMMIT_TITLE} characters of its first line. */
  readonly title: string
  /** The name that the commit gives. */
  readonly author: string
  /** The time that the commit gives. */
  readonly at: DateTime.Utc
}

/** The description and the commits of a pull request. */
export interface PullRequestContent {
  /** Untrusted Markdown. */
  readonly description: string
  /** The newest {@link MAX_COMMITS} of its branch since the base, oldest first. */
  readonly commits: ReadonlyArray<PullRequestCommit>
  /** The number of all commits. */
  readonly commitCount: number
}

/** Comments of one review. */
export const MAX_REVIEW_COMMENTS = 100

/** A person's review of a pull request. The texts are stored as they are. */
export interface NewReview {
  /** Unique for the review: at most 100 characters. */
  readonly key: string
  /** `login`: the name that is shown. */
  readonly author: { readonly id: string; readonly login: string }
  /** About the whole pull request; empty: only comments on lines. */
  readonly text: string
  /** At most {@link MAX_REVIEW_COMMENTS}. */
  readonly comments: ReadonlyArray<{ readonly path: string; readonly line: number | null; readonly text: string }>
  readonly at: DateTime.Utc
}

/** Checked by `PullRequestsContract`. */
export interface PullRequestsShape {
  /** The changes of its branch since the base, as a git patch; `too large` above `MAX_DIFF_BYTES`. */
  diff(repo: RepoName, number: number): Effect.Effect<Uint8Array, Trouble>
  /** Its description and commits, also once it is merged. */
  content(repo: RepoName, number: number): Effect.Effect<PullRequestContent, Trouble>
  /**
   * Adds a merge commit to the base branch if the branch is still at `headSha`, the reviewed commit. Keeps the branch. Safe to repeat.
   * Conflicts and closed pull requests are refused.
   */
  merge(repo: RepoName, number: number, options: {
    readonly headSha: string
    readonly author: { readonly name: string; readonly email: string }
  }): Effect.Effect<Ended, Trouble>
  /**
   * Adds a review, which `PullRequestFeedback` and the details of `SourceHost` show from now on. Safe to repeat: a second review with the
   * same key changes nothing. A closed pull request is refused.
   */
  review(repo: RepoName, number: number, review: NewReview): Effect.Effect<void, Trouble>
  /** Closes it without merging, and keeps its branch. Safe to repeat. A merged pull request is refused. */
  close(repo: RepoName, number: number): Effect.Effect<Ended, Trouble>
}

/** `null`: the source host has its own pages. */
export const PullRequests = Context.Reference<PullRequestsShape | null>("@slipway/domain/PullRequests", { defaultValue: () => null })
