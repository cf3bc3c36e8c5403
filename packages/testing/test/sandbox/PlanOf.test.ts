import { assert, describe, it } from "@effect/vitest"
import { hostile, type Plan, planOf, play } from "@slipway/testing/histories/Histories"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

const numbers = [Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })))] as const

describe("a plan of numbers", () => {
  it.prop("is the same one of the same numbers, has a step for each but the first, and can be played", [...numbers], ([given]) => {
    const plan = planOf(given)
    assert.deepStrictEqual(planOf([...given]), plan)
    assert.strictEqual(plan.steps.length, Math.max(given.length - 1, 0))
    play(plan)
  })

  it.effect("has every step that Effect's arbitrary has", () =>
    Effect.gen(function*() {
      const tags = (plans: ReadonlyArray<Plan>) => [...new Set(plans.flatMap(({ steps }) => steps.map(({ _tag }) => _tag)))]
      const drawn = yield* Arbitrary.sampleEffect(hostile, { count: 300, size: 60, seed: 1 })
      // `GoOn` is what an episode of one action is.
      assert.includeMembers([...tags([planOf(Array.from({ length: 3000 }, (_, n) => n))]), "GoOn"], tags(drawn))
    }))
})
