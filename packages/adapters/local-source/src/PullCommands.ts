/** A pull request of a repository on this machine, and the shell commands for it. */
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

/** If `changed` is `false`, no other change was made either. */
export interface Done extends Ended, LocalPullRequest {
  readonly branchDeleted: boolean
  /** The checkout of the base branch, if its files are now the merged ones. */
  readonly checkout?: string
}

/** Quotes a word for a shell. */
export const quote = (word: string): string => /^[\w@%+=:,./-]+$/u.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`

/** Commands that merge it with plain git: in its checkout, or in any clone of a bare repository. */
export const mergeCommands = ({ pullRequest, repository }: LocalPullRequest): ReadonlyArray<string> => {
  const [path, base, head] = [repository.path, pullRequest.baseRef, pullRequest.headRef].map(quote)
  return LocalGit.isCheckout(repository.path)
    ? [`cd ${path}`, `git switch ${base}`, `git merge --no-ff ${head}`]
    : [`git switch ${base}`, `git pull ${path} ${base}`, `git pull --no-rebase --no-ff ${path} ${head}`, `git push ${path} ${base}`]
}

/** Commands that fetch its files into any clone of the repository. */
export const fetchCommands = (
  { pullRequest, repository }: LocalPullRequest
): ReadonlyArray<string> => [`git fetch ${quote(repository.path)} ${quote(pullRequest.headRef)}`, "git switch --detach FETCH_HEAD"]
