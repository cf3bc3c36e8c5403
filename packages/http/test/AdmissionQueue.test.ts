import { assert, describe, it } from "@effect/vitest"
import * as AdmissionQueue from "@slipway/http/server/edge/AdmissionQueue"
import { Effect, Fiber } from "effect"

/** Work in one turn of the event loop is done when the next turn begins. */
const turn = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))

const begin = (queue: Effect.Effect<void>, begun: Array<string>, name: string) =>
  Effect.forkChild(Effect.andThen(queue, Effect.sync(() => begun.push(name))), { startImmediately: true })

describe("an admission queue", () => {
  it.live("admits at once when no other request was admitted in this turn, else one a turn, first come, first served", () =>
    Effect.gen(function*() {
      const [queue, begun] = [AdmissionQueue.make(), new Array<string>()]
      for (const name of ["a", "b", "c"]) yield* begin(queue, begun, name)
      assert.deepStrictEqual(begun, ["a"])
      yield* turn
      assert.isBelow(begun.length, 3)
      yield* turn
      yield* turn
      assert.deepStrictEqual(begun, ["a", "b", "c"])
      yield* turn
      yield* begin(queue, begun, "d")
      assert.deepStrictEqual(begun, ["a", "b", "c", "d"])
    }))

  it.live("admits the next request when a waiting one is interrupted", () =>
    Effect.gen(function*() {
      const [queue, begun] = [AdmissionQueue.make(), new Array<string>()]
      yield* begin(queue, begun, "a")
      const gone = yield* begin(queue, begun, "gone")
      yield* begin(queue, begun, "b")
      yield* Fiber.interrupt(gone)
      yield* turn
      yield* turn
      assert.deepStrictEqual(begun, ["a", "b"])
    }))
})
