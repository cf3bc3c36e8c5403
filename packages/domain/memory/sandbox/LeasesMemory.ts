/** `Leases` in memory, over the rows of `SandboxStoreMemory`. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { type Leased, LEASE_SECONDS, Leases } from "../../src/sandbox/ports/Leases.ts"
import { isGivenUp, leaseOrder, workOf } from "../../src/sandbox/rules/LeaseRules.ts"
import type { Limits } from "../../src/sandbox/rules/Policy.ts"
import { type Hints, WORK } from "../../src/store/Hints.ts"
import { isHeld, leasableOf, leased, type SandboxRows } from "./SandboxRows.ts"

/** `Leases` over these rows. */
export const make = (state: SandboxRows, limits: Limits, hints: Hints["Service"]): Leases["Service"] => {
  const { rows } = state
  return Leases.of({
    take: ({ machine }, room) =>
      Effect.map(
        DateTime.now,
        (now) =>
          leaseOrder(Array.from(rows.values(), leasableOf), { machine, now, lost: limits.lost }, room).flatMap(
            (id): ReadonlyArray<Leased> => {
              const row = rows.get(id)
              if (row === undefined) return []
              const from = row.moved?.from ?? row.machine
              const cause = row.moved?.cause ?? (isGivenUp(leasableOf(row)) ? "drained" : "lost")
              row.moved = from === null || from === machine ? null : { from, cause }
              row.fence += 1
              row.leaseUntil = DateTime.add(now, { seconds: LEASE_SECONDS })
              row.machine = machine
              row.drained = false
              return [{
                lease: { sandboxId: id, fence: row.fence },
                sandbox: row.sandbox,
                agentSession: row.agentSession,
                moved: row.moved?.cause ?? null
              }]
            }
          )
      ),

    arrived: (lease) =>
      Effect.map(leased(state, lease), (row) => {
        row.moved = null
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
        for (const row of rows.values()) if (row.machine === machine && isHeld(row, now)) row.leaseUntil = now
      }),

    rest: (lease) =>
      Effect.gen(function*() {
        const row = yield* leased(state, lease)
        if (workOf(row.sandbox) !== null) return false
        row.leaseUntil = yield* DateTime.now
        return true
      }),

    release: ({ fence, sandboxId }, { mayMove } = { mayMove: false }) =>
      Effect.flatMap(DateTime.now, (now) => {
        const row = rows.get(sandboxId)
        if (row?.fence !== fence) return Effect.void
        row.leaseUntil = now
        row.drained ||= mayMove
        return hints.publish([WORK])
      }),

    drain: (machine, isDraining) =>
      Effect.flatMap(DateTime.now, (now) => {
        for (const row of rows.values()) if (row.machine === machine && !isHeld(row, now)) row.drained = isDraining
        return isDraining ? hints.publish([WORK]) : Effect.void
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
