/**
 * The repositories that the server lately said not to have. They are looked up in the background, so that creations do not wait for the
 * server: the first creation for a repository is never refused here.
 */
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Clock, Duration, Effect, Queue } from "effect"
import { type ForgejoApi, placeOf } from "./ForgejoApi.ts"

/** A repository is looked up again after this time: its owner may just have given access to it. */
const SOON = Duration.seconds(5)
/** An older answer no longer refuses. */
const GOOD_FOR = Duration.minutes(5)
const MAXIMUM_KNOWN = 1000
const MAXIMUM_WAITING = 100

export const make = Effect.fnUntraced(function*(api: Pick<ForgejoApi, "name" | "repository">) {
  const known = new Map<string, { readonly isMissing: boolean; readonly atMillis: number }>()
  const wanted = yield* Queue.sliding<RepoName>(MAXIMUM_WAITING)

  const look = Effect.fnUntraced(function*(repo: RepoName) {
    const key = repo.toLowerCase()
    const isFresh = (yield* Clock.currentTimeMillis) - (known.get(key)?.atMillis ?? -Infinity) < Duration.toMillis(SOON)
    if (isFresh) return
    const isMissing = yield* Effect.as(api.repository(placeOf(repo)), false).pipe(
      Effect.catchTag("RepoNotAccessible", () => Effect.succeed(true))
    )
    known.delete(key)
    known.set(key, { isMissing, atMillis: yield* Clock.currentTimeMillis })
    for (const oldest of known.keys()) if (known.size > MAXIMUM_KNOWN) known.delete(oldest)
  }, Effect.catch((failure) => Effect.logWarning("a repository could not be looked up", { host: api.name, reason: failure.message })))

  yield* Effect.forkScoped(Effect.forever(Effect.flatMap(Queue.take(wanted), look)))

  return {
    /** The first repository that is missing; `null`: none is known to be. */
    missing: Effect.fnUntraced(function*(repos: ReadonlyArray<RepoName>) {
      const now = yield* Clock.currentTimeMillis
      const isKnownMissing = (repo: RepoName) => {
        const answer = known.get(repo.toLowerCase())
        return answer !== undefined && answer.isMissing && now - answer.atMillis <= Duration.toMillis(GOOD_FOR)
      }
      const missing = repos.find(isKnownMissing)
      for (const repo of repos) if (!known.has(repo.toLowerCase()) || isKnownMissing(repo)) yield* Queue.offer(wanted, repo)
      return missing ?? null
    })
  }
})
