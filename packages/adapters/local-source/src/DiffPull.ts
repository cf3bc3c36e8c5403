/** The changes and the commits of a pull request's branch. */
import { MAX_COMMIT_TITLE, MAX_COMMITS, type PullRequestCommit, type PullRequestContent } from "@slipway/domain/source/ports/PullRequests"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { guard } from "@slipway/postgres/sql/SqlFailure"
import { DateTime, Effect } from "effect"
import { find, type Pulls, refuse } from "./FindPulls.ts"
import * as LocalGit from "./LocalGit.ts"
import { withGit } from "./PullBranches.ts"
import { type LocalPullRequest, quote } from "./PullCommands.ts"
import { description } from "./PullRows.ts"

/** The newest commit of its base without it. */
const compared = Effect.fnUntraced(function*({ pullRequest, repository }: LocalPullRequest) {
  const { baseRef, headRef, headSha, merged, number } = pullRequest
  const { fullName, path } = repository
  const refused = refuse(fullName, number)
  if ((yield* LocalGit.commit(path, headSha)) === undefined) {
    return yield* refused("no commit", `its branch ${headRef} was deleted, and git has removed the commit ${headSha} since.`)
  }
  const base = (yield* LocalGit.tips(path, baseRef)).get(baseRef)
  if (base === undefined) return yield* refused("no base", `there is no branch ${baseRef} to compare it with.`)
  const before = merged ? yield* LocalGit.beforeMerge(path, base, headSha) : base
  if (before === undefined) {
    return yield* refused(
      "merged without a merge commit",
      `${baseRef} was moved on to it, so git does not know where it began. See: git -C ${quote(path)} log -p ${headSha}`
    )
  }
  return before
})

export const diff = Effect.fn("LocalPullRequests.diff")(function*(
  pulls: Pulls,
  repo: RepoName,
  number: number,
  options: LocalGit.DiffOptions
) {
  const found = yield* find(pulls, repo, number)
  const { pullRequest: { baseRef, headRef, headSha }, repository: { path } } = found
  const refused = refuse(found.repository.fullName, number)
  return yield* withGit(
    found,
    Effect.gen(function*() {
      const before = yield* compared(found)
      const from = yield* LocalGit.mergeBase(path, before, headSha)
      if (from === undefined) return yield* refused("nothing in common", `${headRef} and ${baseRef} have no commit in common.`)
      return yield* LocalGit.diff(path, from, headSha, options).pipe(
        Effect.catchIf(({ reason }) => reason === "output", () =>
          refused(
            "too large",
            `its diff is too large to show. See it in parts: git -C ${quote(path)} diff ${from} ${headSha} -- <file>`
          ))
      )
    })
  )
})

/** Its description, and the commits of its branch. */
export const content = Effect.fn("LocalPullRequests.content")(function*(pulls: Pulls, repo: RepoName, number: number) {
  const found = yield* find(pulls, repo, number)
  const { pullRequest: { headSha }, repository: { fullName, path } } = found
  return yield* withGit(
    found,
    Effect.gen(function*() {
      const before = yield* compared(found)
      const [logged, commitCount] = yield* Effect.all([
        LocalGit.log(path, before, headSha, { commits: MAX_COMMITS, characters: MAX_COMMIT_TITLE }),
        LocalGit.countCommits(path, before, headSha)
      ], { concurrency: 2 })
      const commits = logged.map(({ author, seconds, sha, title }): PullRequestCommit => ({
        sha,
        title,
        author,
        at: DateTime.makeUnsafe(seconds * 1_000)
      }))
      const content: PullRequestContent = { description: yield* guard(description(pulls.sql, fullName, number)), commits, commitCount }
      return content
    })
  )
})
