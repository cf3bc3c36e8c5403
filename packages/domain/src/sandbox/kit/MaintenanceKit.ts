/** `Maintenance` over the statements of a database. The store's clock is that of the process. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { AccessStore } from "../../access/ports/AccessStore.ts"
import { Maintenance } from "../ports/Maintenance.ts"
import type { Limits } from "../rules/Policy.ts"
import { deadlineOf, endedBeforeOf, guard, limitsText, sandboxOf } from "./Rows.ts"
import { keptSince } from "./SandboxStoreKit.ts"
import type { CensusRow, Statements } from "./Statements.ts"

/** Rows that one transaction calculates. Each has the whole state of a sandbox. */
const BATCH = 64

/** Calculates time limits anew that were written under the limits of another process or an earlier day. */
const recalculate = Effect.fnUntraced(function*(statements: Statements, limits: Limits) {
  const outdated = statements.outdated(limitsText(limits), BATCH)
  while ((yield* outdated).length > 0) {
    yield* statements.transaction(
      Effect.flatMap(
        outdated,
        (rows) => statements.save("sandboxes", rows.map((row) => ({ ...row, ...deadlineOf(sandboxOf(row), limits) })))
      )
    )
  }
})

const censusOf = (rows: ReadonlyArray<CensusRow>) => {
  const live = { queued: 0, creating: 0, running: 0, terminating: 0 }
  for (const { count, status } of rows) if (status in live) live[status as keyof typeof live] += count
  const sum = (of: "approvals" | "awaiting" | "count", isOf: (row: CensusRow) => boolean) =>
    rows.reduce((total, row) => isOf(row) ? total + row[of] : total, 0)
  const queuedAt = rows.flatMap(({ oldest, status }) => status === "queued" ? [oldest] : [])
  return {
    live,
    leased: sum("count", ({ held }) => held === 1),
    resting: sum("count", ({ held, status, work }) => status === "running" && work === 0 && held === 0),
    bootsWaiting: sum("count", ({ held, status }) => status === "queued" && held === 0),
    oldestQueuedAt: queuedAt.length === 0 ? null : DateTime.makeUnsafe(Math.min(...queuedAt)),
    pendingApprovals: sum("approvals", () => true),
    awaitingApproval: sum("awaiting", () => true)
  }
}

/** `access`: reports revoked grants; `null`: no grant is ever revoked. */
export const make = (statements: Statements, limits: Limits, access: AccessStore["Service"] | null): Maintenance["Service"] => {
  const guarded = guard(statements)
  const { leases, transaction } = statements
  return Maintenance.of({
    now: DateTime.now,

    due: (limit, after = null) =>
      Effect.flatMap(DateTime.now, (now) => {
        const from = after === null ? null : { id: after.id, deadlineAt: after.at.epochMilliseconds }
        const due = Effect.andThen(recalculate(statements, limits), statements.due(now.epochMilliseconds, from, limit))
        return Effect.map(guarded(due), (rows) => {
          const last = rows.at(-1)
          return {
            now,
            ids: rows.map(({ id }) => id),
            last: last === undefined ? null : { id: last.id, at: DateTime.makeUnsafe(last.deadlineAt) }
          }
        })
      }),

    ofRevokedGrants: (limit) =>
      access === null ? Effect.succeed([]) : Effect.flatMap(access.listGrants, (grants) => {
        const revoked = grants.flatMap(({ id, revokedAt }) => revokedAt === null ? [] : [id])
        return Effect.map(guarded(statements.endable(revoked, limit)), (rows) => rows.map(({ id }) => id))
      }),

    purgeEvents: (endedBefore, limit, own) =>
      guarded(transaction(Effect.gen(function*() {
        const rows = yield* statements.purgeable(endedBeforeOf(endedBefore, own), limit)
        if (rows.length > 0) {
          yield* statements.purge(rows.map(({ id }) => id))
          yield* statements.save("sandboxes", rows.map((row) => ({ ...row, purgedSeq: row.lastSeq })))
        }
        return { sandboxes: rows.length, more: rows.length === limit }
      }))),

    purgeKeys: (limit) => Effect.flatMap(DateTime.now, (now) => guarded(transaction(statements.purgeKeys(keptSince(now), limit)))),

    left: (machine, ids) =>
      Effect.map(guarded(leases(ids)), (rows) => {
        const live = new Map(
          rows.flatMap((row) => row.endedAt === null ? [[row.id, [row.machine ?? machine, row.movedFrom]] as const] : [])
        )
        return { over: ids.filter((id) => !live.has(id)), moved: ids.filter((id) => live.get(id)?.includes(machine) === false) }
      }),

    unneeded: (ids) =>
      Effect.flatMap(DateTime.now, ({ epochMilliseconds: now }) =>
        Effect.map(guarded(leases(ids)), (rows) => {
          const needed = new Set(
            rows.flatMap(({ endedAt, id, until, work }) => endedAt === null || work !== null || (until ?? 0) > now ? [id] : [])
          )
          return ids.filter((id) => !needed.has(id))
        })),

    heads: (after, limit) =>
      Effect.map(guarded(statements.heads(after ?? "", limit)), (rows) => rows.map(({ id, lastSeq }) => ({ id, seq: lastSeq }))),

    census: Effect.flatMap(DateTime.now, (now) => Effect.map(guarded(statements.census(now.epochMilliseconds)), censusOf))
  })
}
