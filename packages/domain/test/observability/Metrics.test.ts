import { assert, it } from "@effect/vitest"
import { counters } from "@slipway/domain/observability/Metrics"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"

const greetings = counters("test_greetings_total", "Greetings, by language.", "language", ["en", "fr"])

/** The value of each series, by its label. */
const seen = Effect.map(
  Metric.snapshot,
  (found) =>
    Object.fromEntries(found.map(({ attributes, state }) => [attributes?.["language"], "count" in state ? Number(state.count) : null]))
)

it.effect("what is listed is seen at 0 by everyone who declares it, and what is not counts as other", () =>
  Effect.gen(function*() {
    for (const _ of ["a process", "another one"]) {
      const found = yield* Effect.provideService(Effect.andThen(greetings.declare, seen), Metric.MetricRegistry, new Map())
      assert.deepStrictEqual(found, { en: 0, fr: 0 })
    }
    const counting = Effect.all([greetings.declare, greetings.add("fr"), greetings.add("nl"), seen])
    const [, , , found] = yield* Effect.provideService(counting, Metric.MetricRegistry, new Map())
    assert.deepStrictEqual(found, { en: 0, fr: 1, other: 1 })
  }))
