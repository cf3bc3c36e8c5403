/**
 * The repositories of an account that the App may use, by GitHub's last answer. They are fetched on request and cached for a time.
 */
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Cache, Duration, Effect, Exit } from "effect"
import type { GitHubApi, GitHubFailed } from "./GitHubApi.ts"

const GOOD_FOR = Duration.minutes(5)
/** After a failure, further requests (one per key press) wait this long. */
const FAILED_FOR = Duration.seconds(5)
const MAXIMUM_ACCOUNTS = 200

export const make = Effect.fnUntraced(function*(api: Pick<GitHubApi, "repositoriesOf">) {
  const cache = yield* Cache.makeWith(
    (account: string): Effect.Effect<ReadonlyArray<RepoName>, GitHubFailed> => api.repositoriesOf(account),
    {
      capacity: MAXIMUM_ACCOUNTS,
      timeToLive: (exit) => Exit.isSuccess(exit) ? GOOD_FOR : FAILED_FOR
    }
  )
  return {
    /** The repositories of these accounts, given in lower case. */
    of: (accounts: ReadonlyArray<string>) =>
      Effect.map(Effect.forEach(accounts, (account) => Cache.get(cache, account), { concurrency: 4 }), (found) => found.flat())
  }
})
