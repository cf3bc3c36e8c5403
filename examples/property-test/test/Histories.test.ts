/**
 * The same lives and values for another property tester: fast-check draws numbers and shrinks them, `planOf` makes a life of them and
 * `valueOf` a value.
 */
import { Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import { valueOf } from "@slipway/testing/histories/Arbitraries"
import { planOf, play } from "@slipway/testing/histories/Histories"
import { historyLaws } from "@slipway/testing/laws/Laws"
import * as Schema from "effect/Schema"
import fc from "fast-check"
import { describe, expect, test } from "vitest"

const plans = fc.array(fc.nat(), { maxLength: 24, size: "medium" }).map(planOf)

describe("every life that fast-check draws", () => {
  for (const { holds, name } of historyLaws) {
    test(name, () => fc.assert(fc.property(plans, (plan) => holds(play(plan))), { numRuns: 50 }))
  }
})

describe("every sandbox that fast-check draws", () => {
  const sandboxes = fc.array(fc.nat(), { maxLength: 100, size: "medium" }).map(valueOf("Sandbox"))
  const encode = Schema.encodeSync(Sandbox)
  const decode = Schema.decodeSync(Sandbox)

  test("survives its storage", () => {
    fc.assert(fc.property(sandboxes, (sandbox) => {
      expect(encode(decode(encode(sandbox)))).toEqual(encode(sandbox))
    }))
  })

  test("is shrunk to the simplest that breaks a rule", () => {
    const { counterexample } = fc.check(fc.property(sandboxes, ({ publications }) => publications.length === 0), { seed: 1 })
    expect(counterexample?.[0]).toMatchObject({ publications: [{}], approvals: [], turn: null })
    expect(counterexample?.[0].publications).toHaveLength(1)
  })
})
