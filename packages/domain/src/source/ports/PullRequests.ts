/**
 * Port: what people do with pull requests of a source host that has no pages for it. Checked by `PullRequestsContract`.
 * How a pull request stands is the `SourceHost`'s to say.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { PullRequest } from "../schema/PullRequest.ts"
import { RepoName } from "../schema/RepoRef.ts"
import type { SourceHostError } from "./SourceHost.ts"

/** It cannot be done as things stand; nothing was changed. */
export class PullRequestRefused extends Schema.TaggedError<PullRequestRefused>()("PullRequestRefused", {
  repo: RepoName,
  /** `null`: it is about the repository. */
  number: Schema.NullOr(Schema.Int),
  /** `outdated`: it is no longer at the commit that was named. `moved`: its base was moved meanwhile, and trying again helps. */
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
  /** Sentences for the operator, with what to do: they may name folders of the machine. */
  detail: Schema.String
}) {
  override get message() {
    return `${this.repo}${this.number === null ? "" : ` #${this.number}`}: ${this.detail}`
  }
}

type Trouble = PullRequestRefused | SourceHostError | StoreUnavailable

export interface Ended {
  readonly pullRequest: PullRequest
  /** `false`: it was so before, and nothing was done. */
  readonly changed: boolean
}

/** Checked by `PullRequestsContract`. */
export interface PullRequestsShape {
  /** What its branch changed since it left its base, as a patch of git; `too large` beyond `MAX_DIFF_BYTES`. */
  diff(repo: RepoName, number: number): Effect.Effect<Uint8Array, Trouble>
  /**
   * Puts a merge commit on the base branch if the branch is still at `headSha`, the commit that was looked at, and keeps the branch.
   * Safe to repeat. What conflicts is refused, and so is what was closed.
   */
  merge(repo: RepoName, number: number, options: {
    readonly headSha: string
    readonly author: { readonly name: string; readonly email: string }
  }): Effect.Effect<Ended, Trouble>
  /** Closes it without merging, and keeps its branch. Safe to repeat; what was merged is refused. */
  close(repo: RepoName, number: number): Effect.Effect<Ended, Trouble>
}

/** `null`: the source host has pages for it. */
export const PullRequests = Context.Reference<PullRequestsShape | null>("@slipway/domain/PullRequests", { defaultValue: () => null })
