import { assert as check, describe, it } from "@effect/vitest"
import * as JestRunner from "@slipway/testing/runners/Jest"
import { assert, RuleBroken } from "@slipway/testing/suite/Assert"
import { define, defineLive, type Suite } from "@slipway/testing/suite/Suite"
import * as Arbitrary from "effect/Arbitrary"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"

class Store extends Context.Service<Store, { readonly values: Array<number> }>()("test/Store") {}

/** Counts how often the store was made and let go of. */
const counted = () => {
  const counts = { made: 0, released: 0 }
  const layer = Layer.effect(
    Store,
    Effect.acquireRelease(
      Effect.sync(() => (counts.made++, Store.of({ values: [] }))),
      () => Effect.sync(() => counts.released++)
    )
  )
  return { counts, layer }
}

const failureOf = (suite: Suite, name?: string): Promise<unknown> => {
  const rule = suite.rules.find((rule) => name === undefined || rule.name === name)
  return rule === undefined ? Promise.reject(new Error(`no rule ${name}`)) : rule.run().then(() => null, (error: unknown) => error)
}

describe("a suite", () => {
  it("has its rules by name, in order, and makes nothing until one runs", async () => {
    const { counts, layer } = counted()
    const suite = define("Store (test)", layer, (it) => {
      it.effect("keeps", () => Effect.map(Store, ({ values }) => values.push(1)))
      it.effect.each([1, 2])("counts %s", (n) => Effect.map(Store, ({ values }) => values.push(n)), { timeout: 60_000 })
    })
    check.deepStrictEqual(suite.rules.map(({ name, timeout }) => [name, timeout]), [["keeps", null], ["counts 1", 60_000], [
      "counts 2",
      60_000
    ]])
    check.deepStrictEqual(counts, { made: 0, released: 0 })
    for (const { run } of suite.rules) await run()
    check.deepStrictEqual(counts, { made: 1, released: 0 })
    await suite.close()
    check.deepStrictEqual(counts, { made: 1, released: 1 })
  })

  it("ends a rule's scope with the rule, whatever came of it", async () => {
    const ended: Array<string> = []
    const suite = define("Store (test)", Layer.empty, (it) => {
      for (const name of ["holds", "fails"]) {
        it.effect(name, () =>
          Effect.gen(function*() {
            yield* Effect.addFinalizer(() => Effect.sync(() => ended.push(name)))
            if (name === "fails") assert.fail("no")
          }))
      }
    })
    check.isNull(await failureOf(suite, "holds"))
    check.instanceOf(await failureOf(suite, "fails"), RuleBroken)
    check.deepStrictEqual(ended, ["holds", "fails"])
  })

  it("tells a typed error by its name and a defect by its message", async () => {
    class Refused extends Schema.TaggedError<Refused>()("Refused", { limit: Schema.Int }) {}
    const suite = define("Store (test)", Layer.empty, (it) => {
      it.effect("typed", () => Effect.fail(new Refused({ limit: 3 })))
      it.effect("defect", () => Effect.die(new Error("cannot be")))
    })
    check.include(String(await failureOf(suite, "typed")), "Refused")
    check.include(String(await failureOf(suite, "defect")), "cannot be")
  })

  it("stands still in time unless it is defined on the real clock", async () => {
    const clocks: Array<number> = []
    const look = () => Effect.map(Clock.currentTimeMillis, (now) => clocks.push(now))
    await define("still", Layer.empty, (it) => it.effect("looks", () => Effect.andThen(TestClock.adjust("1 second"), look)))
      .rules[0]?.run()
    await defineLive("live", Layer.empty, (it) => it.effect("looks", look)).rules[0]?.run()
    check.strictEqual(clocks[0], 1000)
    check.isAbove(clocks[1] ?? 0, 1_700_000_000_000)
  })

  it("shrinks what breaks a property and says how to draw it again", async () => {
    const suite = define("Store (test)", Layer.empty, (it) => {
      it.effect.prop("is small", [Arbitrary.schema(Schema.Int)], ([n]) => Effect.sync(() => assert.isBelow(n, 10)), {
        arbitrary: { runs: 500, seed: 1 }
      })
    })
    const failure = String(await failureOf(suite))
    check.include(failure, "10")
    check.match(failure, /replay/iu)
  })

  it("ends early when it is told to, and cleans up before it is over", async () => {
    let cleaned = false
    const suite = define("Store (test)", Layer.empty, (it) => {
      it.effect("never ends", () =>
        Effect.onInterrupt(Effect.never, () =>
          Effect.sync(() => {
            cleaned = true
          })))
    })
    const ending = new AbortController()
    const running = suite.rules[0]?.run(ending.signal).then(() => "held", () => "ended")
    ending.abort()
    check.strictEqual(await running, "ended")
    check.isTrue(cleaned)
  })

  it("is written into Jest's functions with its timeouts, and closed after all of it", async () => {
    const { counts, layer } = counted()
    const suite = define("Store (test)", layer, (it) => {
      it.effect("keeps", () => Store, { timeout: 9_000 })
    })
    const written: Array<unknown> = []
    let test: () => Promise<void> = () => Promise.reject(new Error("no test"))
    let end: () => Promise<void> = () => Promise.reject(new Error("no end"))
    JestRunner.register([suite], {
      describe: (name, write) => (written.push(name), write()),
      it: (name, run, timeout) => (written.push(name, timeout), test = run),
      afterAll: (close) => (end = close)
    })
    check.deepStrictEqual(written, ["Store (test)", "keeps", 9_000])
    await test()
    await end()
    check.deepStrictEqual(counts, { made: 1, released: 1 })
  })
})
