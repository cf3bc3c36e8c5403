import { assert, describe, it } from "@effect/vitest"
import type { Boots } from "@slipway/domain/sandbox/ports/BootsHere"
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

  it.live("admits nothing while it is held, and continues in order afterwards", () =>
    Effect.gen(function*() {
      let isHeld = true
      const [queue, begun] = [AdmissionQueue.make(() => isHeld), new Array<string>()]
      for (const name of ["a", "b", "c"]) yield* begin(queue, begun, name)
      yield* Effect.replicateEffect(turn, 5)
      assert.deepStrictEqual(begun, ["a"])
      isHeld = false
      yield* Effect.repeat(turn, { until: () => begun.length === 3 })
      assert.deepStrictEqual(begun, ["a", "b", "c"])
    }))
})

describe("a burst of creations", () => {
  const burst = (boots: () => Boots) => {
    let now = 0
    const isHeld = AdmissionQueue.behindFirstBoot(boots, () => now)
    return {
      /** Whether as many wait on at that millisecond. */
      at: (millis: number, waiting: number) => {
        now = millis
        return isHeld(waiting)
      }
    }
  }

  it("lets the first boot go ahead for half a second at most", () => {
    const { at } = burst(() => "first")
    assert.deepStrictEqual([0, 499, 500, 501].map((millis) => at(millis, 50)), [true, true, false, false])
  })

  it("waits a moment for a boot to begin, and goes on where none does", () => {
    const { at } = burst(() => "none")
    assert.deepStrictEqual([0, 199, 200].map((millis) => at(millis, 50)), [true, true, false])
  })

  it("goes on as soon as the first boot is over, and where no worker runs", () => {
    let boots: Boots = "first"
    const { at } = burst(() => boots)
    assert.isTrue(at(0, 50))
    boots = "more"
    assert.isFalse(at(1, 50))
  })

  it("is more than a few: those never wait, and the next burst has its half second again", () => {
    const { at } = burst(() => "first")
    assert.isFalse(at(0, 4))
    assert.deepStrictEqual([1, 501].map((millis) => at(millis, 5)), [true, false])
    assert.isFalse(at(502, 4))
    assert.isTrue(at(503, 5))
  })
})
