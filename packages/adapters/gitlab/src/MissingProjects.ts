/**
 * The projects that GitLab does not show to the token, by its last answers. They are asked for in the background, so that creations do not
 * wait for GitLab.
 */
import { RepoNotAccessible } from "@slipway/domain/source/ports/SourceHost"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { LruCache } from "@slipway/domain/store/LruCache"
import { Clock, Duration, Effect, Queue, Result } from "effect"
import type { Projects } from "./Projects.ts"

/** An older answer is no longer used. */
const GOOD_FOR = Duration.minutes(15)
/** The wait between two questions: a person may just have added the account. */
const BETWEEN = Duration.millis(200)
const MAX_KNOWN = 1000
const MAX_WANTED = 100

export const make = Effect.fnUntraced(function*(projects: Projects) {
  const missing = new LruCache<string, { readonly refusal: RepoNotAccessible; readonly atMillis: number }>(MAX_KNOWN)
  const wanted = yield* Queue.sliding<RepoName>(MAX_WANTED)

  const look = Effect.fnUntraced(function*(repo: RepoName) {
    const found = yield* Effect.result(projects.resolve(repo))
    if (Result.isSuccess(found)) missing.delete(repo.toLowerCase())
    else if (found.failure._tag === "RepoNotAccessible") {
      missing.set(repo.toLowerCase(), { refusal: found.failure, atMillis: yield* Clock.currentTimeMillis })
    } else yield* Effect.logWarning("a project could not be looked up", { repo, reason: found.failure.message })
  })

  yield* Queue.take(wanted).pipe(
    Effect.flatMap(look),
    Effect.andThen(Effect.sleep(BETWEEN)),
    Effect.forever,
    Effect.forkScoped
  )

  return {
    /** Why the first of them is refused; `null`: no known reason. */
    refusal: Effect.fnUntraced(function*(repos: ReadonlyArray<RepoName>) {
      const now = yield* Clock.currentTimeMillis
      let refusal: RepoNotAccessible | null = null
      for (const repo of repos) {
        const known = missing.get(repo.toLowerCase())
        const isRefused = known !== undefined && now - known.atMillis <= Duration.toMillis(GOOD_FOR)
        if (isRefused) refusal ??= new RepoNotAccessible({ ...known.refusal, repo })
        if (isRefused || !(yield* projects.isKnown(repo))) yield* Queue.offer(wanted, repo)
      }
      return refusal
    })
  }
})
