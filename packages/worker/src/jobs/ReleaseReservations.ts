/**
 * Releases reservations of ended sandboxes. A sandbox may end without a worker, because its machine was lost: no other code releases
 * its reservations then, and its grant could never spend them. Any worker may do it.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { Effect, Option } from "effect"

/** Sandboxes in one read. */
const PAGE = 100

/** Does nothing without `Spending`. `machine`: the name of this machine. */
export const releaseReservations = Effect.fn("ReleaseReservations.releaseReservations")(function*(machine: string) {
  const spending = yield* Effect.serviceOption(Spending)
  const maintenance = yield* Maintenance
  if (Option.isNone(spending)) return
  for (let after: SandboxId | null = null;;) {
    const ids: ReadonlyArray<SandboxId> = yield* spending.value.reservedFor(after, PAGE)
    const { over } = yield* maintenance.left(machine, ids)
    // A request that is still under way is charged all the same.
    yield* Effect.forEach(over, (id) => spending.value.release(id), { discard: true })
    after = ids.at(-1) ?? null
    if (ids.length < PAGE) return
  }
})
