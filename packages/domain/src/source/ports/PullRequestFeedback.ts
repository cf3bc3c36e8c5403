/** Port: reviews, comments and failing checks of a pull request, and one reply to them. Checked by `PullRequestFeedbackContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type { RepoName } from "../schema/RepoRef.ts"
import type { RepoNotAccessible, SourceHostError } from "./SourceHost.ts"

/** Characters of the text of one item, and of one annotation. */
export const MAX_FEEDBACK_TEXT = 60_000
/** Bytes at the end of the log of a failing check. */
export const MAX_LOG_TAIL = 64 * 2 ** 10
/** Failing checks of a commit that are read. */
export const MAX_FAILING_CHECKS = 10
/** Annotations of a failing check that are read. */
export const MAX_ANNOTATIONS = 50
/** Characters of a reply. */
export const MAX_REPLY = 4_000

/** A review, a comment on code or on the pull request. Its texts are untrusted. */
export interface FeedbackItem {
  /** The host's; an edited item keeps it. */
  readonly id: string
  readonly kind: "review" | "review_comment" | "comment"
  readonly author: { readonly id: string; readonly login: string; readonly isBot: boolean }
  /** Markdown: at most the first {@link MAX_FEEDBACK_TEXT} characters. */
  readonly body: string
  /** The file of a comment on code, and its line, if the host knows it. */
  readonly path: string | null
  readonly line: number | null
  readonly url: string
  /** When others could first read it: a comment of a review, when the review was submitted. */
  readonly at: DateTime.Utc
  /** When it last changed. */
  readonly updatedAt: DateTime.Utc
}

/** A remark of a check on a line. Its texts are untrusted. */
export interface CheckAnnotation {
  readonly path: string
  readonly line: number | null
  readonly message: string
}

/** A check that failed. Its texts are untrusted. */
export interface FailingCheck {
  readonly name: string
  readonly url: string
  /** The text of the check itself: at most {@link MAX_FEEDBACK_TEXT} characters. Often empty. */
  readonly summary: string
  readonly annotations: ReadonlyArray<CheckAnnotation>
  /** The last {@link MAX_LOG_TAIL} bytes of its log; empty if the host has none or does not show it. */
  readonly log: string
}

/** The checks of the newest commit. */
export interface HeadChecks {
  readonly headSha: string
  /** `none`: there are none, or they may not be read. */
  readonly state: "none" | "running" | "passed" | "failed"
  /** When the last of them ended; `null`: none has. */
  readonly at: DateTime.Utc | null
  /** With `failed`: the first {@link MAX_FAILING_CHECKS} by name. */
  readonly failing: ReadonlyArray<FailingCheck>
}

/** The present state of a pull request. */
export interface PullFeedback {
  readonly isOpen: boolean
  readonly url: string
  readonly headRef: string
  /** Oldest first. Deleted ones and reviews that were not submitted are missing. */
  readonly items: ReadonlyArray<FeedbackItem>
  /** `null`: they were not asked for. */
  readonly checks: HeadChecks | null
}

type Trouble = RepoNotAccessible | SourceHostError

/** The parts of a pull request to read. */
export interface ReadOptions {
  /** Items that last changed before may be left out. */
  readonly since: DateTime.Utc
  readonly checks: boolean
  /** Commits whose failing checks are known: of these `failing` may be empty. */
  readonly knownChecks: ReadonlySet<string>
}

/** Checked by `PullRequestFeedbackContract`. */
export class PullRequestFeedback extends Context.Service<PullRequestFeedback, {
  /**
   * Reads the pull request. The service's own comments are by a bot. Of a closed one neither items nor checks are read.
   */
  read(repo: RepoName, number: number, options: ReadOptions): Effect.Effect<PullFeedback, Trouble>
  /**
   * Writes a comment on the pull request, or replaces the text of the comment that an earlier reply with this key wrote. Exactly one
   * comment has the key, also after a reply was cut off. Returns its address. `text`: at most {@link MAX_REPLY} characters.
   */
  reply(repo: RepoName, number: number, key: string, text: string): Effect.Effect<string, Trouble>
}>()("@slipway/domain/PullRequestFeedback") {}
