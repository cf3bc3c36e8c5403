/** `FollowedRepositories` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { CLAIM_TIME, type ClaimedRepository, FollowedRepositories } from "../../src/source/ports/FollowedRepositories.ts"

interface Followed extends ClaimedRepository {
  readonly reasons: ReadonlySet<string>
  /** In lower case. */
  readonly presentName: string
  readonly dueAt: DateTime.Utc
  /** `null`: no worker has it. */
  readonly claimedUntil: DateTime.Utc | null
}

const make = Effect.sync(() => {
  /** By name in lower case. */
  const followed = new Map<string, Followed>()
  let fences = 0
  const change = (one: Followed, changes: Partial<Followed>) => void followed.set(one.repo.toLowerCase(), { ...one, ...changes })
  const isFree = ({ claimedUntil }: Followed, now: DateTime.Utc) => claimedUntil === null || DateTime.isLessThanOrEqualTo(claimedUntil, now)

  return FollowedRepositories.of({
    follow: (repo, reason, now) =>
      Effect.sync(() => {
        const key = repo.toLowerCase()
        const known = followed.get(key)
        if (known !== undefined) return change(known, { reasons: new Set([...known.reasons, reason]) })
        followed.set(key, {
          repo,
          presentName: key,
          reasons: new Set([reason]),
          cursor: null,
          followedAt: now,
          heardAt: null,
          failures: 0,
          dueAt: now,
          fence: 0,
          claimedUntil: null
        })
      }),
    unfollow: (repo, reason) =>
      Effect.sync(() => {
        const known = followed.get(repo.toLowerCase())
        if (known === undefined) return
        const reasons = new Set([...known.reasons].filter((other) => other !== reason))
        if (reasons.size === 0) followed.delete(repo.toLowerCase())
        else change(known, { reasons })
      }),
    claim: (now, limit) =>
      Effect.sync(() => {
        const due = [...followed.values()].filter((one) => DateTime.isLessThanOrEqualTo(one.dueAt, now) && isFree(one, now))
        return due.sort((a, b) => DateTime.Order(a.dueAt, b.dueAt)).slice(0, limit).map((one): ClaimedRepository => {
          const { cursor, failures, followedAt, heardAt, repo } = one
          const fence = ++fences
          change(one, { fence, claimedUntil: DateTime.addDuration(now, CLAIM_TIME) })
          return { repo, cursor, followedAt, heardAt, failures, fence }
        })
      }),
    record: ({ fence, repo }, { presentName, ...end }) =>
      Effect.sync(() => {
        const known = followed.get(repo.toLowerCase())
        if (known?.fence !== fence || known.claimedUntil === null) return false
        change(known, { ...end, presentName: presentName.toLowerCase(), claimedUntil: null })
        return true
      }),
    heard: (name, at) =>
      Effect.sync(() => {
        const found = [...followed.values()].filter(({ presentName }) => presentName === name.toLowerCase())
        for (const one of found) change(one, { heardAt: at })
        return found.map(({ repo }) => repo)
      }),
    renamed: (from, to) =>
      Effect.sync(() => {
        for (const one of followed.values()) {
          if (one.presentName === from.toLowerCase()) change(one, { presentName: to.toLowerCase() })
        }
      })
  })
})

/** Process-local. */
export const layer = Layer.effect(FollowedRepositories, make)
