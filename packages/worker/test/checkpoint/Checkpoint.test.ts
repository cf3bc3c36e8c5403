import { assert } from "@effect/vitest"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import * as Checkpoint from "@slipway/worker/checkpoint/Checkpoint"
import * as LeasedSandbox from "@slipway/worker/shared/LeasedSandbox"
import { Effect } from "effect"
import { create, eventsOf, find, message, scenario } from "../Doubles.ts"

scenario(
  "files that were read while an agent worked are no checkpoint, even if its turn is over by then",
  (world) =>
    Effect.gen(function*() {
      yield* create()
      const [given] = yield* Leases.use((leases) =>
        leases.take({ worker: "worker", machine: "machine" }, { slots: 1, boots: 1, errands: 1 })
      )
      const leased = yield* LeasedSandbox.make(given ?? assert.fail("nothing to lease"))
      const { id } = leased
      world.trees.add(id)
      const work = (turnId: string) => leased.write([{ _tag: "StartTurn", turnId }, { _tag: "EndTurn", turnId, state: "succeeded" }])
      yield* leased.write([{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: "turn-1" }])
      yield* work("turn-1")

      const turn = Effect.gen(function*() {
        yield* Effect.orDie(message(id, "Go on"))
        yield* work((yield* find(id)).turn?.id ?? "")
      })
      const context = yield* Effect.context<Effect.Services<typeof turn>>()
      world.saving = Effect.orDie(Effect.provide(turn, context))
      yield* Checkpoint.take(leased, null)
      assert.deepInclude(yield* find(id), { checkpoint: 0, owesCheckpoint: true })
      assert.deepStrictEqual(yield* eventsOf(id, "sandbox.checkpoint"), [])

      world.saving = Effect.void
      yield* Checkpoint.take(leased, null)
      assert.deepInclude(yield* find(id), { checkpoint: 1, owesCheckpoint: false })
    })
)
