/** How git and source hosts name what is theirs. */
import type { RepoName } from "./RepoRef.ts"

const FULL_COMMIT = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/iu
// git-check-ref-format(1): no component starts with "." or ends with ".lock", and none of these anywhere.
// oxlint-disable-next-line no-control-regex -- control characters are what is refused
const FORBIDDEN_IN_REF = /[\u0000-\u0020\u007f~^:?*[\\]|\.\.|@\{|\/\/|^\/|\/$|\.$|^@$|^-/u

/** Whether git accepts `ref` as a branch or tag short name, or it is a full commit id. */
export const isRefName = (ref: string): boolean =>
  FULL_COMMIT.test(ref) ||
  !FORBIDDEN_IN_REF.test(ref) && ref.split("/").every((part) => !part.startsWith(".") && !part.endsWith(".lock"))

/** Source hosts name a repository without regard to case. */
export const sameRepo = (a: RepoName, b: RepoName): boolean => a.toLowerCase() === b.toLowerCase()

/** Whether `ref` can only be a commit: such a ref is no base for a pull request. */
export const isCommitId = (ref: string): boolean => FULL_COMMIT.test(ref)

/** What the branches of all sandboxes begin with. */
export const BRANCHES = "slipway/"

/**
 * The branch a sandbox publishes to, the same in each of its repositories. After its pull request was merged or closed the next one
 * has another: `round` counts them, from 1.
 */
export const headRef = (sandboxId: string, round = 1): string => `${BRANCHES}${sandboxId}${round === 1 ? "" : `-${round}`}`

/** Which of a sandbox's branches it is, from 1. */
export const roundOf = (branch: string): number => Number(/-(?<round>\d{1,6})$/u.exec(branch)?.groups?.["round"] ?? 1)
