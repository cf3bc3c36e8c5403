import { RepoNotAccessible, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect } from "effect"
import type { GitHubFailed } from "./GitHubApi.ts"

/** Converts GitHub's errors to the port's. */
export const within = <A>(operation: string, repo: RepoName, self: Effect.Effect<A, GitHubFailed | RepoNotAccessible | SourceHostError>) =>
  Effect.catchTag(
    self,
    "GitHubFailed",
    Effect.fnUntraced(function*({ detail, retryAfter, retryable, status }) {
      yield* Effect.logWarning("GitHub did not do what it was asked to", { operation, repo, status, detail })
      // Blocked for legal reasons.
      if (status === 451) return yield* new RepoNotAccessible({ repo })
      return yield* new SourceHostError({ operation, detail, retryable, ...(retryAfter === undefined ? {} : { retryAfter }) })
    })
  )
