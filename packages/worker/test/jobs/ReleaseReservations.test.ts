import { assert } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { releaseReservations } from "@slipway/worker/jobs/ReleaseReservations"
import { Effect } from "effect"
import { create, principal, scenario, startWorker, pass } from "../Doubles.ts"

const reserve = Effect.fnUntraced(function*(sandboxId: SandboxId) {
  const spending = yield* Spending
  yield* spending.reserve({ id: yield* Ids.use((ids) => ids.uuid7), sandboxId, grantId: principal.grantId }, 100)
})
const reserved = Spending.use((spending) => spending.reservedFor(null, 100))
const terminate = (id: SandboxId) => Sandboxes.use((sandboxes) => sandboxes.terminate(principal, id))

/** A live sandbox that has moved to another machine. */
const moved = Effect.gen(function*() {
  const leases = yield* Leases
  const id = yield* create()
  const room = { slots: 1, boots: 1, errands: 1 }
  const [first] = yield* leases.take({ worker: "first", machine: "machine" }, room)
  yield* leases.release(first?.lease ?? assert.fail("not leased"), { mayMove: true })
  const [next] = yield* leases.take({ worker: "next", machine: "machine-2" }, room)
  yield* leases.arrived(next?.lease ?? assert.fail("not leased"))
  return id
})

scenario(
  "gives back what is reserved for sandboxes that are over, and leaves it to those that live, here or elsewhere",
  () =>
    Effect.gen(function*() {
      const elsewhere = yield* moved
      const [here, over] = [yield* create(), yield* create()]
      yield* Effect.forEach([elsewhere, here, over], reserve)
      yield* terminate(over)
      yield* releaseReservations("machine")
      assert.sameMembers([...yield* reserved], [elsewhere, here])
      assert.strictEqual((yield* Spending.use((spending) => spending.of(principal.grantId))).reserved, 200)
    })
)

scenario(
  "a worker that removes the files of a sandbox that moved leaves the model's requests of its new worker alone",
  (world) =>
    Effect.gen(function*() {
      const [elsewhere, over] = [yield* moved, yield* create()]
      const { trees } = world.machine("machine")
      for (const id of [elsewhere, over]) {
        trees.add(id)
        yield* reserve(id)
      }
      yield* terminate(over)
      yield* startWorker(world)
      yield* pass("1 second")
      assert.deepStrictEqual([...trees], [])
      assert.deepStrictEqual(yield* reserved, [elsewhere])
    })
)
