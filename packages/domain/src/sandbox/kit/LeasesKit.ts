/** `Leases` over the statements of a database. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { type Hints, WORK } from "../../store/Hints.ts"
import { type Lease, LEASE_SECONDS, Leases, StaleLease } from "../ports/Leases.ts"
import { isGivenUp, leaseOrder } from "../rules/LeaseRules.ts"
import type { Limits } from "../rules/Policy.ts"
import { mark } from "./CheckpointRows.ts"
import { arrive, guard, leasableOf, leaseOf, sandboxOf } from "./Rows.ts"
import type { LeaseRow, StatementError, Statements } from "./Statements.ts"

/** Whether the lease is not over. */
const isHeld = ({ until }: LeaseRow, now: number): boolean => until !== null && until > now

/** `Leases` over these statements. */
export const make = (statements: Statements, limits: Limits, hints: Hints["Service"]): Leases["Service"] => {
  const { contents, leases, leasesOf, leasesWithWork, sandboxes, save } = statements
  const write = <A, E>(body: (now: number) => Effect.Effect<A, E | StatementError>) =>
    Effect.flatMap(DateTime.now, ({ epochMilliseconds }) => guard(statements)(statements.transaction(body(epochMilliseconds))))
  const set = (rows: ReadonlyArray<LeaseRow>, to: Partial<LeaseRow>) =>
    rows.length === 0 ? Effect.void : save("leases", rows.map((row) => ({ ...leaseOf(row), ...to })))
  const current = Effect.fnUntraced(function*({ fence, sandboxId }: Lease) {
    const [row] = yield* leases([sandboxId])
    return row?.fence === fence ? row : yield* new StaleLease()
  })
  const until = (now: number) => now + LEASE_SECONDS * 1000

  return Leases.of({
    take: ({ machine }, room) =>
      write(Effect.fnUntraced(function*(now) {
        const known = new Map((yield* leasesWithWork).map((row) => [row.id, row]))
        const asked = { machine, now: DateTime.makeUnsafe(now), lost: limits.lost }
        const order = leaseOrder(Array.from(known.values(), leasableOf), asked, room)
        const taken = order.flatMap((id) => known.get(id) ?? []).map((row): LeaseRow => {
          const from = row.movedFrom ?? row.machine
          const isMoved = from !== null && from !== machine
          return {
            ...leaseOf(row),
            fence: row.fence + 1,
            machine,
            until: until(now),
            drained: 0,
            movedFrom: isMoved ? from : null,
            moved: isMoved ? row.moved ?? (isGivenUp(leasableOf(row)) ? "drained" : "lost") : null
          }
        })
        yield* set(taken, {})
        // Puts of the lease before cannot be recorded any more.
        for (const { id } of taken) {
          if ((yield* contents(id)).some(({ recordedAt }) => recordedAt === null)) yield* mark(statements, [id])
        }
        const states = new Map((yield* sandboxes(order)).map((row) => [row.id, sandboxOf(row)]))
        return taken.flatMap(({ agentSession, fence, id, moved }) => {
          const sandbox = states.get(id)
          return sandbox === undefined ? [] : [{ lease: { sandboxId: id, fence }, sandbox, agentSession, moved }]
        })
      })),

    arrived: (lease) => write(() => Effect.flatMap(current(lease), (row) => arrive(statements, row))),

    renew: (asked) =>
      write(Effect.fnUntraced(function*(now) {
        const rows = new Map((yield* leases(asked.map(({ sandboxId }) => sandboxId))).map((row) => [row.id, row]))
        const held = asked.filter(({ fence, sandboxId }) => rows.get(sandboxId)?.fence === fence)
        yield* set(held.flatMap(({ sandboxId }) => rows.get(sandboxId) ?? []), { until: until(now) })
        return held
      })),

    endLeases: (machine) =>
      write((now) => Effect.flatMap(leasesOf(machine), (rows) => set(rows.filter((row) => isHeld(row, now)), { until: now }))),

    rest: (lease) =>
      write(Effect.fnUntraced(function*(now) {
        const row = yield* current(lease)
        if (row.work !== null) return false
        yield* set([row], { until: now })
        return true
      })),

    release: (lease, { mayMove } = { mayMove: false }) =>
      write((now) => Effect.flatMap(current(lease), (row) => set([row], { until: now, drained: mayMove ? 1 : row.drained }))).pipe(
        Effect.andThen(hints.publish([WORK])),
        Effect.catchTag("StaleLease", () => Effect.void),
        Effect.uninterruptible
      ),

    drain: (machine, isDraining) =>
      write((now) =>
        Effect.flatMap(leasesOf(machine), (rows) => set(rows.filter((row) => !isHeld(row, now)), { drained: Number(isDraining) }))
      ).pipe(Effect.andThen(isDraining ? hints.publish([WORK]) : Effect.void), Effect.uninterruptible),

    saveAgentSession: (lease, agentSession) => write(() => Effect.flatMap(current(lease), (row) => set([row], { agentSession }))),

    machineOf: (ids) =>
      Effect.map(guard(statements)(leases(ids)), (rows) => {
        const counts = new Map<string, number>()
        for (const { machine } of rows) if (machine !== null) counts.set(machine, (counts.get(machine) ?? 0) + 1)
        return Array.from(counts).sort(([, a], [, b]) => b - a)[0]?.[0] ?? null
      })
  })
}
