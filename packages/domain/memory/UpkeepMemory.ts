/** `Upkeep` in memory, over the rows of `SandboxStoreMemory`. */
import { DateTime, Effect } from "effect"
import type { Limits } from "../src/sandbox/Policy.ts"
import { isSettled } from "../src/sandbox/Sandbox.ts"
import { nextDeadline } from "../src/sandbox/TimeLimit.ts"
import { Upkeep } from "../src/sandbox/Upkeep.ts"
import { isExpired, type SandboxRows } from "./SandboxRows.ts"

export const make = ({ keys, rows }: SandboxRows, limits: Limits): Upkeep["Service"] =>
  Upkeep.of({
    now: DateTime.now,

    due: (limit) =>
      Effect.map(DateTime.now, (now) => ({
        now,
        ids: Array.from(rows.values())
          .flatMap(({ sandbox }) => {
            const at = nextDeadline(sandbox, limits)
            return at !== null && DateTime.isLessThanOrEqualTo(at, now) ? [{ at, id: sandbox.id }] : []
          })
          .sort((a, b) => DateTime.Order(a.at, b.at))
          .slice(0, limit)
          .map(({ id }) => id)
      })),

    // Grants are not kept here.
    ofRevokedGrants: () => Effect.succeed([]),

    purgeEvents: (endedBefore, limit) =>
      Effect.sync(() => {
        const old = Array.from(rows.values()).filter(({ purged, sandbox: { lastSeq, status, statusAt } }) =>
          purged < lastSeq && isSettled(status) && DateTime.isLessThanOrEqualTo(statusAt, endedBefore)
        ).slice(0, limit)
        for (const row of old) {
          row.log.length = 0
          row.purged = row.sandbox.lastSeq
        }
        return old.length
      }),

    purgeKeys: (limit) =>
      Effect.map(DateTime.now, (now) => {
        let count = 0
        for (const bound of [keys, ...Array.from(rows.values(), (row) => row.keys)]) {
          for (const [key, binding] of bound) if (count < limit && isExpired(binding, now) && bound.delete(key)) count++
        }
        return count
      }),

    over: (ids) =>
      Effect.sync(() =>
        ids.filter((id) => {
          const row = rows.get(id)
          return row === undefined || isSettled(row.sandbox.status)
        })
      ),

    census: Effect.map(DateTime.now, (now) => {
      const live = { queued: 0, creating: 0, running: 0, terminating: 0 }
      let leased = 0
      let oldestQueuedAt: DateTime.Utc | null = null
      let pendingApprovals = 0
      for (const { leaseUntil, sandbox: { approvals, createdAt, status } } of rows.values()) {
        if (status === "succeeded" || status === "failed" || status === "terminated") continue
        live[status]++
        pendingApprovals += approvals.length
        if (leaseUntil !== null && DateTime.isGreaterThan(leaseUntil, now)) leased++
        if (status === "queued" && (oldestQueuedAt === null || DateTime.isLessThan(createdAt, oldestQueuedAt))) {
          oldestQueuedAt = createdAt
        }
      }
      return { live, leased, oldestQueuedAt, pendingApprovals }
    })
  })
