/** `FeedbackWatches` in memory, over the rows of `SandboxStoreMemory`. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import { CLAIM_TIME, FeedbackWatches, type TakenWatch } from "../../src/publishing/ports/FeedbackWatches.ts"
import { continuedBranch, type Sandbox } from "../../src/sandbox/rules/Sandbox.ts"
import { headRef } from "../../src/source/schema/Naming.ts"
import type { SandboxRows } from "./SandboxRows.ts"

interface Watch extends TakenWatch {
  readonly branch: string
  readonly lookAt: DateTime.Utc | null
  readonly claimedUntil: DateTime.Utc | null
  /** The fingerprint of the sandbox when it was last seen. */
  readonly seen: string
}

/** The parts of a sandbox whose changes make its watches due. */
const fingerprint = ({ feedback, publications, status, turn }: Sandbox): string =>
  JSON.stringify([feedback, publications, status, turn?.id, turn?.state])

/** `FeedbackWatches` over these rows. */
export const make = ({ rows }: SandboxRows): FeedbackWatches["Service"] => {
  const watches = new Map<string, Watch>()
  const keyOf = (id: SandboxId, repo: string) => `${id} ${repo.toLowerCase()}`
  /** Adds the watches of pull requests that were recorded since, and notices changes of their sandboxes. */
  const follow = (now: DateTime.Utc) => {
    for (const { sandbox } of rows.values()) {
      if (sandbox.feedback === null) continue
      const seen = fingerprint(sandbox)
      for (const { number, pushed, repo } of sandbox.publications) {
        if (number === null) continue
        const key = keyOf(sandbox.id, repo)
        const known = watches.get(key)
        if (known?.seen === seen) continue
        watches.set(key, {
          sandboxId: sandbox.id,
          repo,
          failures: known?.failures ?? 0,
          fence: known?.fence ?? 0,
          claimedUntil: known?.claimedUntil ?? null,
          noticed: (known?.noticed ?? 0) + 1,
          branch: pushed?.headRef ?? continuedBranch(sandbox, repo)?.branch ?? headRef(sandbox.id),
          lookAt: known?.lookAt == null ? now : DateTime.min(known.lookAt, now),
          seen
        })
      }
    }
  }
  return FeedbackWatches.of({
    noticed: (repo, branch, at) =>
      Effect.sync(() => {
        follow(at)
        for (const [key, watch] of watches) {
          if (watch.repo.toLowerCase() !== repo.toLowerCase() || branch !== null && watch.branch !== branch) continue
          const lookAt = watch.lookAt === null ? at : DateTime.min(watch.lookAt, at)
          watches.set(key, { ...watch, lookAt, noticed: watch.noticed + 1 })
        }
      }),
    take: (now, limit) =>
      Effect.sync(() => {
        follow(now)
        return [...watches.values()]
          .filter(({ claimedUntil, lookAt }) =>
            lookAt !== null && DateTime.isLessThanOrEqualTo(lookAt, now) &&
            (claimedUntil === null || DateTime.isLessThanOrEqualTo(claimedUntil, now))
          )
          .sort((a, b) => DateTime.Order(a.lookAt ?? now, b.lookAt ?? now))
          .slice(0, limit)
          .map((watch): TakenWatch => {
            const taken = { ...watch, fence: watch.fence + 1, claimedUntil: DateTime.addDuration(now, CLAIM_TIME) }
            watches.set(keyOf(watch.sandboxId, watch.repo), taken)
            const { failures, fence, noticed, repo, sandboxId } = taken
            return { failures, fence, noticed, repo, sandboxId }
          })
      }),
    record: ({ fence, noticed, repo, sandboxId }, { failures, lookAt }) =>
      Effect.map(DateTime.now, (now) => {
        follow(now)
        const known = watches.get(keyOf(sandboxId, repo))
        if (known === undefined || known.fence !== fence) return false
        watches.set(keyOf(sandboxId, repo), {
          ...known,
          failures,
          claimedUntil: null,
          lookAt: known.noticed === noticed ? lookAt : known.lookAt
        })
        return true
      })
  })
}
