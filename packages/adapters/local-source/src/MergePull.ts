/** Merges a pull request into its base branch. */
import type { Author } from "@slipway/domain/publishing/rules/Publication"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, Effect } from "effect"
import { statSync } from "node:fs"
import { find, type Pulls, refuse } from "./FindPulls.ts"
import * as LocalGit from "./LocalGit.ts"
import { deletable, deleteBranch, withGit } from "./PullBranches.ts"
import { mergeCommands, quote } from "./PullCommands.ts"

const FILTERED = "and some of its files pass through a filter such as LFS"

/** Whether the checkout's files belong to the user of this process. Git itself refuses other users' checkouts too. */
const isOurs = (folder: string): boolean => process.getuid === undefined || statSync(folder).uid === process.getuid()

export const merge = Effect.fn("LocalPullRequests.merge")(function*(
  pulls: Pulls,
  repo: RepoName,
  number: number,
  options: { readonly author: Author; readonly deleteBranch: boolean; readonly headSha?: string }
) {
  const found = yield* find(pulls, repo, number)
  const { pullRequest: { baseRef, headRef, headSha, merged, state, title }, repository: { fullName, path } } = found
  const refused = refuse(fullName, number)
  if (merged) return { ...found, changed: false, branchDeleted: false }
  if (state === "closed") return yield* refused("closed", "it was closed without being merged.")
  if (options.headSha !== undefined && options.headSha !== headSha) {
    return yield* refused("outdated", `${headRef} was pushed to since it was looked at.`)
  }
  return yield* withGit(
    found,
    Effect.gen(function*() {
      const base = (yield* LocalGit.tips(path, baseRef)).get(baseRef)
      if (base === undefined) return yield* refused("no base", `there is no branch ${baseRef} to merge into.`)
      const folder = yield* LocalGit.checkedOutIn(path, baseRef)
      /** The owner of the checkout decides about its files. */
      const leave = (why: string) => {
        const command = `cd ${quote(folder ?? "")} && git merge --no-ff ${quote(headRef)}`
        return refused("checked out", `${baseRef} is checked out in ${folder}, ${why}. Merge it there: ${command}`)
      }
      if (folder !== undefined) {
        if (!isOurs(folder)) return yield* leave("which belongs to another user")
        if (yield* LocalGit.hasFilters(path, base)) return yield* leave(FILTERED)
        if (!(yield* LocalGit.isClean(folder))) return yield* leave("where something is not committed yet")
      }
      if (options.deleteBranch) yield* deletable(found)
      const common = yield* LocalGit.mergeBase(path, base, headSha)
      if (common === undefined) {
        return yield* refused("nothing in common", `${headRef} and ${baseRef} have no commit in common.`)
      }
      // It was merged in the meantime.
      if (common === headSha) return { ...yield* find(pulls, repo, number), changed: false, branchDeleted: false }
      const tree = yield* LocalGit.mergedTree(path, base, headSha)
      if (tree === undefined) {
        const where = LocalGit.isCheckout(path) ? "" : "In a clone of it: "
        return yield* refused(
          "conflict",
          `it conflicts with ${baseRef}. Merge it by hand. ${where}${mergeCommands(found).join(" && ")}`
        )
      }
      const merge = yield* LocalGit.makeCommit(path, {
        tree,
        parents: [base, headSha],
        message: `Merge pull request #${number} from ${headRef}\n\n${title}\n`,
        author: options.author,
        at: yield* DateTime.now
      })
      if (folder !== undefined && (yield* LocalGit.hasFilters(path, merge))) return yield* leave(FILTERED)
      const move = folder === undefined ? LocalGit.moveBranch(path, baseRef, base, merge) : LocalGit.fastForward(folder, merge)
      yield* move.pipe(
        Effect.catchTag(
          "GitFailed",
          Effect.fnUntraced(function*(failure) {
            if ((yield* LocalGit.tips(path, baseRef)).get(baseRef) === base) {
              return yield* folder === undefined ? failure : leave("where a file that git does not know is in the way")
            }
            return yield* refused("moved", `${baseRef} was moved by somebody else meanwhile. Try again.`)
          })
        )
      )
      const branchDeleted = options.deleteBranch && (yield* deleteBranch(found))
      return { ...yield* find(pulls, repo, number), changed: true, branchDeleted, ...(folder === undefined ? {} : { checkout: folder }) }
    })
  )
})
