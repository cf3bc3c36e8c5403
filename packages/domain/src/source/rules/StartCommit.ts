/** Why a sandbox cannot start from a repository, as sentences for people. */

/** The repository has no branch and no tag. */
export const NO_COMMITS = "The repository has no commits. Push a first commit and try again."

/** The repository has commits. `ref`: as it was requested; absent: its `HEAD` names the branch `name`. */
export const missingStart = (name: string, ref: string | undefined): string =>
  ref === undefined
    ? `The repository has no default branch "${name}", which its HEAD names. Push a first commit to it and try again.`
    : `It has no branch or tag "${name}".`
