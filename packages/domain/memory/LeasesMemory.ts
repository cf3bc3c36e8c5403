/** `Leases` in memory, over the rows of `SandboxStoreMemory`. */
import { DateTime, Effect } from "effect"
import { type Claimed, LEASE_SECONDS, Leases } from "../src/sandbox/Leases.ts"
import type { Limits } from "../src/sandbox/Policy.ts"
import { isSettled } from "../src/sandbox/Sandbox.ts"
import { leased, newestFirst, type Row, type SandboxRows } from "./SandboxRows.ts"

export const make = (state: SandboxRows, limits: Limits): Leases["Service"] => {
  const { rows } = state
  return Leases.of({
    claim: ({ machine }, limit, ending = limit) =>
      Effect.map(DateTime.now, (now) => {
        const isEnding = ({ sandbox }: Row) => sandbox.status === "terminating"
        const live = Array.from(rows.values()).filter(({ sandbox }) => !isSettled(sandbox.status)).sort((a, b) =>
          newestFirst(b.sandbox, a.sandbox)
        )
        const free = live.filter((row) => {
          if (row.leaseUntil === null) return true
          const until = row.machine === machine ? row.leaseUntil : DateTime.addDuration(row.leaseUntil, limits.lost)
          return DateTime.isLessThanOrEqualTo(until, now)
        })
        // A grant's turns: behind as many as workers hold of it, and behind its own that waited longer.
        const turns = new Map<string, number>()
        const takeTurn = ({ sandbox: { grantId } }: Row) => {
          const turn = (turns.get(grantId) ?? 0) + 1
          turns.set(grantId, turn)
          return turn
        }
        for (const row of live) {
          if (!isEnding(row) && row.leaseUntil !== null && DateTime.isGreaterThan(row.leaseUntil, now)) takeTurn(row)
        }
        const waiting = free.filter((row) => !isEnding(row)).map((row) => ({ row, turn: takeTurn(row) }))
          .sort((a, b) => a.turn - b.turn)
          .map(({ row }) => row)
        return [...free.filter(isEnding).slice(0, ending), ...waiting.slice(0, limit)].map((row): Claimed => {
          const elsewhere = row.machine !== null && row.machine !== machine
          row.fence += 1
          row.leaseUntil = DateTime.add(now, { seconds: LEASE_SECONDS })
          row.machine = machine
          return {
            lease: { sandboxId: row.sandbox.id, fence: row.fence },
            sandbox: row.sandbox,
            agentSession: row.agentSession,
            elsewhere
          }
        })
      }),

    renew: (leases) =>
      Effect.map(DateTime.now, (now) =>
        leases.filter(({ fence, sandboxId }) => {
          const row = rows.get(sandboxId)
          if (row?.fence !== fence) return false
          row.leaseUntil = DateTime.add(now, { seconds: LEASE_SECONDS })
          return true
        })),

    endLeases: (machine) =>
      Effect.map(DateTime.now, (now) => {
        for (const row of rows.values()) if (row.machine === machine && row.leaseUntil !== null) row.leaseUntil = now
      }),

    release: ({ fence, sandboxId }) =>
      Effect.map(DateTime.now, (now) => {
        const row = rows.get(sandboxId)
        if (row?.fence === fence) row.leaseUntil = now
      }),

    saveAgentSession: (lease, agentSession) =>
      Effect.map(leased(state, lease), (row) => {
        row.agentSession = agentSession
      }),

    machineOf: (ids) =>
      Effect.sync(() => {
        const counts = new Map<string, number>()
        for (const id of ids) {
          const machine = rows.get(id)?.machine ?? null
          if (machine !== null) counts.set(machine, (counts.get(machine) ?? 0) + 1)
        }
        return Array.from(counts).sort(([, a], [, b]) => b - a)[0]?.[0] ?? null
      })
  })
}
