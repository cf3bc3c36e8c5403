/** `Maintenance` in memory, over the rows of `SandboxStoreMemory`. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { AccessStore } from "../../src/access/ports/AccessStore.ts"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import { type Due, Maintenance } from "../../src/sandbox/ports/Maintenance.ts"
import { workOf } from "../../src/sandbox/rules/LeaseRules.ts"
import type { Limits } from "../../src/sandbox/rules/Policy.ts"
import { isSettled } from "../../src/sandbox/rules/Sandbox.ts"
import { nextDeadline } from "../../src/sandbox/rules/TimeLimit.ts"
import { live } from "../../src/sandbox/rules/Transition.ts"
import { isExpired, isHeld, type SandboxRows } from "./SandboxRows.ts"

const byLimit = (a: Due, b: Due) => DateTime.Order(a.at, b.at) || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)

/** `access`: reports revoked grants; `null`: no grant is ever revoked. */
export const make = ({ keys, rows }: SandboxRows, limits: Limits, access: AccessStore["Service"] | null): Maintenance["Service"] =>
  Maintenance.of({
    now: DateTime.now,

    due: (limit, after = null) =>
      Effect.map(DateTime.now, (now) => {
        const page = Array.from(rows.values())
          .flatMap(({ sandbox }) => {
            const at = nextDeadline(sandbox, limits)
            return at !== null && DateTime.isLessThanOrEqualTo(at, now) ? [{ at, id: sandbox.id }] : []
          })
          .sort(byLimit)
          .filter((due) => after === null || byLimit(due, after) > 0)
          .slice(0, limit)
        return { now, ids: page.map(({ id }) => id), last: page.at(-1) ?? null }
      }),

    ofRevokedGrants: (limit) =>
      access === null ? Effect.succeed([]) : Effect.map(access.listGrants, (grants) => {
        const revoked = new Set(grants.filter(({ revokedAt }) => revokedAt !== null).map(({ id }) => id))
        return Array.from(rows.values())
          .filter(({ sandbox: { grantId, status } }) => revoked.has(grantId) && live.includes(status))
          .slice(0, limit)
          .map(({ sandbox }) => sandbox.id)
      }),

    purgeEvents: (endedBefore, limit, own = new Map()) =>
      Effect.sync(() => {
        const old = Array.from(rows.values()).filter(({ purged, sandbox: { grantId, lastSeq, status, statusAt } }) =>
          purged < lastSeq && isSettled(status) && DateTime.isLessThanOrEqualTo(statusAt, own.get(grantId) ?? endedBefore)
        ).slice(0, limit)
        for (const row of old) {
          row.log.length = 0
          row.setup = null
          row.traces.clear()
          row.purged = row.sandbox.lastSeq
        }
        return { sandboxes: old.length, more: old.length === limit }
      }),

    purgeKeys: (limit) =>
      Effect.map(DateTime.now, (now) => {
        let count = 0
        for (const bound of [keys, ...Array.from(rows.values(), (row) => row.keys)]) {
          for (const [key, binding] of bound) if (count < limit && isExpired(binding, now) && bound.delete(key)) count++
        }
        return count
      }),

    left: (machine, ids) =>
      Effect.sync(() => {
        const isOver = (id: SandboxId) => isSettled(rows.get(id)?.sandbox.status ?? "terminated")
        const has = (id: SandboxId) => [rows.get(id)?.machine ?? machine, rows.get(id)?.moved?.from].includes(machine)
        return {
          over: ids.filter(isOver),
          moved: ids.filter((id) => !isOver(id) && !has(id))
        }
      }),

    unneeded: (ids) =>
      Effect.map(DateTime.now, (now) =>
        ids.filter((id) => {
          const row = rows.get(id)
          return row === undefined || isSettled(row.sandbox.status) && workOf(row.sandbox) === null && !isHeld(row, now)
        })),

    heads: (after, limit) =>
      Effect.sync(() =>
        Array.from(rows.values())
          .filter(({ purged, sandbox: { id, lastSeq } }) => purged < lastSeq && (after === null || id > after))
          .map(({ sandbox: { id, lastSeq } }) => ({ id, seq: lastSeq }))
          .sort((a, b) => a.id < b.id ? -1 : 1)
          .slice(0, limit)
      ),

    census: Effect.map(DateTime.now, (now) => {
      const live = { queued: 0, creating: 0, running: 0, terminating: 0 }
      const counts = { leased: 0, resting: 0, bootsWaiting: 0, pendingApprovals: 0, awaitingApproval: 0 }
      let oldestQueuedAt: DateTime.Utc | null = null
      for (const row of rows.values()) {
        const { approvals, createdAt, status } = row.sandbox
        if (status === "succeeded" || status === "failed" || status === "terminated") continue
        live[status]++
        counts.pendingApprovals += approvals.length
        if (approvals.length > 0) counts.awaitingApproval++
        if (isHeld(row, now)) counts.leased++
        else if (status === "queued") counts.bootsWaiting++
        else if (status === "running" && workOf(row.sandbox) === null) counts.resting++
        if (status === "queued" && (oldestQueuedAt === null || DateTime.isLessThan(createdAt, oldestQueuedAt))) {
          oldestQueuedAt = createdAt
        }
      }
      return { live, ...counts, oldestQueuedAt }
    })
  })
