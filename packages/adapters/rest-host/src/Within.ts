import { RepoNotAccessible, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect } from "effect"
import type { RestFailed } from "./RestApi.ts"

/** Converts errors of requests to the port's. A refused token is reported as such by the host's text. */
export const within = <A>(operation: string, repo: RepoName, self: Effect.Effect<A, RestFailed | RepoNotAccessible | SourceHostError>) =>
  Effect.catchTag(
    self,
    "RestFailed",
    Effect.fnUntraced(function*({ detail, retryAfter, retryable, status }) {
      yield* Effect.logWarning("the source host did not do what it was asked to", { operation, repo, status, detail })
      // Blocked for legal reasons.
      if (status === 451) return yield* new RepoNotAccessible({ repo })
      return yield* new SourceHostError({ operation, detail, retryable, ...(retryAfter === undefined ? {} : { retryAfter }) })
    })
  )
