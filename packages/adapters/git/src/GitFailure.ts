/** Explains failed git commands to the callers of trees. */
import * as DiskErrors from "@slipway/machine/node/DiskErrors"
import { Effect } from "effect"
import type { GitFailed } from "./Git.ts"

/**
 * Logs the failure and fails with `error`. A failure of the machine's disk is a defect instead: `OpenTrees.minded` explains those.
 * `said`: what git could not do.
 */
export const explained = <E>(said: string, repo: string, error: (failure: GitFailed) => E) => (failure: GitFailed) =>
  DiskErrors.of(failure) !== undefined
    ? Effect.die(failure)
    : Effect.andThen(Effect.logWarning(`git could not ${said}`, { repo, failure: failure.message }), Effect.fail(error(failure)))
