/**
 * The pull requests of repositories on this machine for `slipway pulls`. `SourceHostLocal` decides their state and is asked before and
 * after each operation.
 */
import type { Author } from "@slipway/domain/publishing/rules/Publication"
import { type NewReview, type PullRequestContent, PullRequests } from "@slipway/domain/source/ports/PullRequests"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { MAX_DIFF_BYTES } from "@slipway/domain/source/rules/FileRules"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { close } from "./ClosePull.ts"
import { content, diff } from "./DiffPull.ts"
import { find, list, type Pulls, select } from "./FindPulls.ts"
import type * as LocalGit from "./LocalGit.ts"
import { LocalRepositories, type LocalRepository } from "./LocalRepositories.ts"
import { merge } from "./MergePull.ts"
import type { Done, LocalPullRequest, PullFailure } from "./PullCommands.ts"
import { review } from "./ReviewPull.ts"

export class LocalPullRequests extends Context.Service<LocalPullRequests, {
  /** In order of the last change, newest first. `unreadable`: repositories whose open pull requests could not be read. */
  list(filter: { readonly repo: RepoName | null; readonly state: "open" | "closed" | "all" }): Effect.Effect<
    { readonly pullRequests: ReadonlyArray<LocalPullRequest>; readonly unreadable: ReadonlyArray<LocalRepository> },
    PullFailure
  >
  find(repo: RepoName, number: number): Effect.Effect<LocalPullRequest, PullFailure>
  /** The changes of its branch since the base: a patch, or with `statWidth` a line per file of that many columns. */
  diff(
    repo: RepoName,
    number: number,
    options: LocalGit.DiffOptions
  ): Effect.Effect<Buffer, PullFailure>
  content(repo: RepoName, number: number): Effect.Effect<PullRequestContent, PullFailure>
  /** Adds a review. A second one with the same key changes nothing. */
  review(repo: RepoName, number: number, review: NewReview): Effect.Effect<void, PullFailure>
  /** Closes it without merging. Safe to repeat. */
  close(repo: RepoName, number: number, options: { readonly deleteBranch: boolean }): Effect.Effect<Done, PullFailure>
  /**
   * Adds a merge commit to the base branch. If that is checked out, its files are updated; refused if one was changed. `headSha`: the
   * branch must be at this commit. Safe to repeat.
   */
  merge(repo: RepoName, number: number, options: {
    readonly author: Author
    readonly deleteBranch: boolean
    readonly headSha?: string
  }): Effect.Effect<Done, PullFailure>
}>()("@slipway/local-source/LocalPullRequests") {
  /** Needs `SourceHostLocal`, not another host. */
  static readonly layer = Layer.effect(
    LocalPullRequests,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const pulls: Pulls = { sql, repositories: yield* LocalRepositories, host: yield* SourceHost, select: select(sql) }
      return LocalPullRequests.of({
        find: (repo, number) => find(pulls, repo, number),
        list: (filter) => list(pulls, filter),
        diff: (repo, number, options) => diff(pulls, repo, number, options),
        content: (repo, number) => content(pulls, repo, number),
        review: (repo, number, options) => review(pulls, repo, number, options),
        close: (repo, number, options) => close(pulls, repo, number, options),
        merge: (repo, number, options) => merge(pulls, repo, number, options)
      })
    })
  )

  /** The port for the service's own pages. */
  static readonly layerPages = Layer.effect(
    PullRequests,
    Effect.map(LocalPullRequests, (pulls) => ({
      diff: (repo, number) => pulls.diff(repo, number, { maximumBytes: MAX_DIFF_BYTES }),
      content: (repo, number) => pulls.content(repo, number),
      review: (repo, number, options) => pulls.review(repo, number, options),
      merge: (repo, number, options) => pulls.merge(repo, number, { ...options, deleteBranch: false }),
      close: (repo, number) => pulls.close(repo, number, { deleteBranch: false })
    }))
  ).pipe(Layer.provide(LocalPullRequests.layer))
}
