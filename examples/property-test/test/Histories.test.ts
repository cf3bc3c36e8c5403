/** The same lives of a sandbox for another property tester: fast-check draws numbers and shrinks them, `planOf` makes a life of them. */
import { planOf, play } from "@slipway/testing/histories/Histories"
import { historyLaws } from "@slipway/testing/laws/Laws"
import fc from "fast-check"
import { describe, test } from "vitest"

const plans = fc.array(fc.nat(), { maxLength: 24, size: "medium" }).map(planOf)

describe("every life that fast-check draws", () => {
  for (const { holds, name } of historyLaws) {
    test(name, () => fc.assert(fc.property(plans, (plan) => holds(play(plan))), { numRuns: 50 }))
  }
})
