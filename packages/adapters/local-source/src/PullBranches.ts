/** Git in the repository of a pull request. */
import type { GitFailed } from "@slipway/git/Git"
import { Effect } from "effect"
import { refuse, unreadable } from "./FindPulls.ts"
import * as LocalGit from "./LocalGit.ts"
import type { LocalPullRequest, PullFailure } from "./PullCommands.ts"

/** A failure of git becomes a refusal. */
export const withGit = <A>(
  { pullRequest: { number }, repository: { fullName, path } }: LocalPullRequest,
  self: Effect.Effect<A, GitFailed | PullFailure>
) =>
  Effect.catchTag(self, "GitFailed", (failure) =>
    Effect.andThen(
      Effect.logWarning("git failed in a local repository", { repo: fullName, failure: failure.message }),
      unreadable(fullName, number, path)
    ))

/** Checks before any change: a checked-out branch cannot be deleted. */
export const deletable = Effect.fnUntraced(
  function*({ pullRequest: { headRef, number }, repository: { fullName, path } }: LocalPullRequest) {
    const folder = yield* LocalGit.checkedOutIn(path, headRef)
    if (folder === undefined) return
    return yield* refuse(fullName, number)(
      "checked out",
      `its branch cannot be deleted: it is checked out in ${folder}. Switch to another branch there.`
    )
  }
)

/** Keeps a branch that has moved since. */
export const deleteBranch = ({ pullRequest: { headRef, headSha }, repository: { path } }: LocalPullRequest) =>
  LocalGit.moveBranch(path, headRef, headSha, null).pipe(Effect.as(true), Effect.catchTag("GitFailed", () => Effect.succeed(false)))
