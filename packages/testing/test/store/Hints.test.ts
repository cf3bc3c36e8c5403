import { assert, describe, it } from "@effect/vitest"
import { EVERY, makeLocal, WORK } from "@slipway/domain/store/Hints"
import { register } from "@slipway/testing/runners/Vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { suites } from "./Hints.suites.ts"

register(...suites())

it("topics are the same in every version, because processes of several send them to each other", () => {
  assert.deepStrictEqual([EVERY, WORK], ["*", "work"])
})

describe("the watchers of one process", () => {
  it.effect("are forgotten with their scope, topic by topic", () =>
    Effect.gen(function*() {
      const hints = makeLocal()
      const [first, second] = [Scope.makeUnsafe(), Scope.makeUnsafe()]
      yield* Effect.asVoid(Scope.provide(hints.watch("a"), first))
      yield* Effect.asVoid(Scope.provide(hints.watch("a"), second))
      yield* Effect.asVoid(Scope.provide(hints.watch("b"), second))
      assert.deepStrictEqual([...hints.topics()], ["a", "b"])
      yield* Scope.close(second, Exit.void)
      assert.deepStrictEqual([...hints.topics()], ["a"])
      yield* Scope.close(first, Exit.void)
      assert.deepStrictEqual([...hints.topics()], [])
      yield* hints.publish(["a", "b"])
    }))

  it.effect("leave nothing behind, however many come and go", () =>
    Effect.gen(function*() {
      const hints = makeLocal()
      yield* Effect.forEach(
        Array.from({ length: 200 }, (_, i) => `topic-${i % 7}`),
        (topic) =>
          Effect.scoped(Effect.gen(function*() {
            const changed = yield* hints.watch(topic)
            yield* hints.publish([topic])
            yield* changed
          })),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual([...hints.topics()], [])
    }))
})
