/** Names of refs, branches and repositories in git and at source hosts. */
import type { RepoName } from "./RepoRef.ts"

const FULL_COMMIT = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/iu
// git-check-ref-format(1): no component starts with "." or ends with ".lock", and none of these anywhere.
// oxlint-disable-next-line no-control-regex -- control characters are what is refused
const FORBIDDEN_IN_REF = /[\u0000-\u0020\u007f~^:?*[\\]|\.\.|@\{|\/\/|^\/|\/$|\.$|^@$|^-/u

/** Whether git accepts `ref` as a branch or tag short name. A full commit id has the form of one. */
export const isRefName = (ref: string): boolean =>
  !FORBIDDEN_IN_REF.test(ref) && ref.split("/").every((part) => !part.startsWith(".") && !part.endsWith(".lock"))

/** Whether two names are the same repository: source hosts ignore case. */
export const sameRepo = (a: RepoName, b: RepoName): boolean => a.toLowerCase() === b.toLowerCase()

/** Whether `ref` can only be a commit, which cannot be the base of a pull request. */
export const isCommitId = (ref: string): boolean => FULL_COMMIT.test(ref)

/** The beginning of the branches of all sandboxes. */
export const BRANCHES = "slipway/"

/**
 * The branch that a sandbox publishes to, the same in each of its repositories. After a merged or closed pull request the next one gets
 * a new branch: `round` counts them, from 1.
 */
export const headRef = (sandboxId: string, round = 1): string => `${BRANCHES}${sandboxId}${round === 1 ? "" : `-${round}`}`

/** Whether the branch has the form of the sandbox's own ones. */
export const isOwnBranch = (sandboxId: string, branch: string): boolean =>
  branch.startsWith(headRef(sandboxId)) && /^(?:-\d{1,6})?$/u.test(branch.slice(headRef(sandboxId).length))

/** The `round` of a sandbox's branch, from 1. */
export const roundOf = (branch: string): number => Number(/-(?<round>\d{1,6})$/u.exec(branch)?.groups?.["round"] ?? 1)
