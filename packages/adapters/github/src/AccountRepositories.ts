/** Which repositories an account lets the App use, as GitHub last said: looked up when somebody asks, and kept for a while. */
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Cache, Duration, Effect, Exit } from "effect"
import type { GitHubApi, GitHubFailed } from "./GitHubApi.ts"

const GOOD_FOR = Duration.minutes(5)
/** What failed is not asked for again with every key that somebody presses. */
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
    /** Of these accounts, in lower case. */
    of: (accounts: ReadonlyArray<string>) =>
      Effect.map(Effect.forEach(accounts, (account) => Cache.get(cache, account), { concurrency: 4 }), (found) => found.flat())
  }
})
