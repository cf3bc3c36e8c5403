import { assert, it } from "@effect/vitest"
import { Schema } from "effect"
import { FirstInOrder } from "../../src/node/FirstInOrder.ts"

const Values = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 50 })))
const Most = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 8 }))

it.prop(
  "the first in order are what sorting all of them begins with, and say whether there were more",
  [Values, Most],
  ([values, most]) => {
    const first = new FirstInOrder<number>(most, (a, b) => a - b)
    for (const value of values) first.add(value)
    assert.deepStrictEqual(first.take(), [...values].sort((a, b) => a - b).slice(0, most))
    assert.strictEqual(first.isCut, values.length > most)
  },
  { arbitrary: { runs: 500 } }
)
