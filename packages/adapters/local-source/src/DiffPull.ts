/** The changes of a pull request's branch. */
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect } from "effect"
import { find, type Pulls, refuse } from "./FindPulls.ts"
import * as LocalGit from "./LocalGit.ts"
import { withGit } from "./PullBranches.ts"
import { quote } from "./PullCommands.ts"

export const diff = Effect.fn("LocalPullRequests.diff")(function*(
  pulls: Pulls,
  repo: RepoName,
  number: number,
  options: LocalGit.DiffOptions
) {
  const found = yield* find(pulls, repo, number)
  const { pullRequest: { baseRef, headRef, headSha, merged }, repository: { path } } = found
  const refused = refuse(found.repository.fullName, number)
  return yield* withGit(
    found,
    Effect.gen(function*() {
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
