/** `FollowedRepositories` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { CLAIM_TIME, type ClaimedRepository, FollowedRepositories } from "../../src/source/ports/FollowedRepositories.ts"

interface Followed extends Omit<ClaimedRepository, "fence"> {
  readonly reasons: ReadonlySet<string>
  readonly dueAt: DateTime.Utc
  readonly fence: number
  /** `null`: no worker has it. */
  readonly claimedUntil: DateTime.Utc | null
}

const make = Effect.sync(() => {
  /** By name in lower case. */
  const followed = new Map<string, Followed>()
  let fences = 0
  return FollowedRepositories.of({
    follow: (repo, reason, now) =>
      Effect.sync(() => {
        const known = followed.get(repo.toLowerCase())
        const kept = known ?? { repo, cursor: null, failures: 0, dueAt: now, fence: 0, claimedUntil: null, reasons: new Set<string>() }
        followed.set(repo.toLowerCase(), { ...kept, reasons: new Set([...kept.reasons, reason]) })
      }),
    unfollow: (repo, reason) =>
      Effect.sync(() => {
        const known = followed.get(repo.toLowerCase())
        if (known === undefined) return
        const reasons = new Set([...known.reasons].filter((other) => other !== reason))
        if (reasons.size === 0) followed.delete(repo.toLowerCase())
        else followed.set(repo.toLowerCase(), { ...known, reasons })
      }),
    claim: (now, limit) =>
      Effect.sync(() => {
        const free = [...followed.values()].filter(({ claimedUntil, dueAt }) =>
          DateTime.isLessThanOrEqualTo(dueAt, now) && (claimedUntil === null || DateTime.isLessThanOrEqualTo(claimedUntil, now))
        )
        return free.sort((a, b) => DateTime.Order(a.dueAt, b.dueAt)).slice(0, limit).map((one) => {
          const fence = ++fences
          followed.set(one.repo.toLowerCase(), { ...one, fence, claimedUntil: DateTime.addDuration(now, CLAIM_TIME) })
          const { cursor, failures, repo } = one
          return { repo, cursor, failures, fence }
        })
      }),
    record: ({ fence, repo }, end) =>
      Effect.sync(() => {
        const known = followed.get(repo.toLowerCase())
        if (known?.fence !== fence || known.claimedUntil === null) return false
        followed.set(repo.toLowerCase(), { ...known, ...end, claimedUntil: null })
        return true
      }),
    rename: (from, to) =>
      Effect.sync(() => {
        const [old, known] = [followed.get(from.toLowerCase()), followed.get(to.toLowerCase())]
        if (old === undefined) return
        followed.delete(from.toLowerCase())
        const reasons = new Set([...old.reasons, ...known?.reasons ?? []])
        // A claim of the old name ends with it.
        followed.set(to.toLowerCase(), { ...known ?? { ...old, fence: 0, claimedUntil: null }, repo: to, reasons })
      })
  })
})

/** Process-local. */
export const layer = Layer.effect(FollowedRepositories, make)
