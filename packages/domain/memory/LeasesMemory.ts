/** `Leases` in memory, over the rows of `SandboxStoreMemory`. */
import { DateTime, Effect } from "effect"
import { type Leased, LEASE_SECONDS, Leases } from "../src/sandbox/Leases.ts"
import { leaseOrder } from "../src/sandbox/Leasing.ts"
import type { Limits } from "../src/sandbox/Policy.ts"
import { leased, type SandboxRows } from "./SandboxRows.ts"

export const make = (state: SandboxRows, limits: Limits): Leases["Service"] => {
  const { rows } = state
  return Leases.of({
    take: ({ machine }, limit, ending = limit) =>
      Effect.map(DateTime.now, (now) => {
        const known = Array.from(rows.values(), ({ leaseUntil, machine, sandbox }) => ({
          ...sandbox,
          lease: leaseUntil === null || machine === null ? null : { machine, until: leaseUntil }
        }))
        return leaseOrder(known, { machine, now, lost: limits.lost }, { limit, ending }).flatMap((id): ReadonlyArray<Leased> => {
          const row = rows.get(id)
          if (row === undefined) return []
          const elsewhere = row.machine !== null && row.machine !== machine
          row.fence += 1
          row.leaseUntil = DateTime.add(now, { seconds: LEASE_SECONDS })
          row.machine = machine
          return [{ lease: { sandboxId: id, fence: row.fence }, sandbox: row.sandbox, agentSession: row.agentSession, elsewhere }]
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
