/** A pull request of a repository on this machine, and the commands that people type for it. */
import type { Ended, PullRequestRefused } from "@slipway/domain/source/ports/PullRequests"
import type { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as LocalGit from "./LocalGit.ts"
import type { LocalRepository } from "./LocalRepositories.ts"

export interface LocalPullRequest {
  readonly repository: LocalRepository
  readonly pullRequest: PullRequest
}

export type PullFailure = PullRequestRefused | SourceHostError | StoreUnavailable

/** Where `changed` is `false`, nothing else was done either. */
export interface Done extends Ended, LocalPullRequest {
  readonly branchDeleted: boolean
  /** Where the base branch is checked out, and its files are the merged ones now. */
  readonly checkout?: string
}

/** A word of a shell. */
export const quote = (word: string): string => /^[\w@%+=:,./-]+$/u.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`

/** Commands that merge it with plain git: in its checkout, or for a bare repository in any clone of it. */
export const mergeCommands = ({ pullRequest, repository }: LocalPullRequest): ReadonlyArray<string> => {
  const [path, base, head] = [repository.path, pullRequest.baseRef, pullRequest.headRef].map(quote)
  return LocalGit.isCheckout(repository.path)
    ? [`cd ${path}`, `git switch ${base}`, `git merge --no-ff ${head}`]
    : [`git switch ${base}`, `git pull ${path} ${base}`, `git pull --no-rebase --no-ff ${path} ${head}`, `git push ${path} ${base}`]
}

/** Commands that get its files into any clone of the repository. */
export const fetchCommands = (
  { pullRequest, repository }: LocalPullRequest
): ReadonlyArray<string> => [`git fetch ${quote(repository.path)} ${quote(pullRequest.headRef)}`, "git switch --detach FETCH_HEAD"]
