/**
 * The accounts with the App, by GitHub's last answer. The list is refreshed in the background, so that creations do not wait for
 * GitHub. A process that never asks never refreshes it.
 */
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Clock, Duration, Effect, Queue } from "effect"
import type { GitHubApi } from "./GitHubApi.ts"

const INTERVAL = Duration.minutes(5)
/** An older list is no longer used. */
const GOOD_FOR = Duration.minutes(15)
/** The wait after a refusal and between two refreshes: the person may just have installed the App. */
const SOON = Duration.seconds(5)

export const make = Effect.fnUntraced(function*(api: Pick<GitHubApi, "accounts">) {
  let listed: { readonly accounts: ReadonlySet<string>; readonly atMillis: number } | null = null
  const wanted = yield* Queue.sliding<void>(1)

  const look = Effect.gen(function*() {
    const accounts = yield* api.accounts
    listed = { accounts, atMillis: yield* Clock.currentTimeMillis }
  }).pipe(
    Effect.catch((failure) => Effect.logWarning("the installations of the GitHub App could not be listed", { reason: failure.message }))
  )

  yield* Queue.take(wanted).pipe(
    Effect.andThen(Effect.forever(look.pipe(
      Effect.andThen(Effect.sleep(SOON)),
      Effect.andThen(Effect.timeoutOrElse(Queue.take(wanted), { duration: INTERVAL, orElse: () => Effect.void }))
    ))),
    Effect.forkScoped
  )

  return {
    /** The first repository of an account without the App; `null`: none is known. */
    missing: Effect.fnUntraced(function*(repos: ReadonlyArray<RepoName>) {
      const known = listed
      const missing = known === null || (yield* Clock.currentTimeMillis) - known.atMillis > Duration.toMillis(GOOD_FOR)
        ? undefined
        : repos.find((repo) => !known.accounts.has((repo.split("/")[0] ?? "").toLowerCase()))
      if (known === null || missing !== undefined) yield* Queue.offer(wanted, undefined)
      return missing ?? null
    })
  }
})
