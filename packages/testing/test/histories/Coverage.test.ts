/** `LIVES=10000` prints the table of so many lives. */
import { assert, describe, it } from "@effect/vitest"
import { coverageOf, livesOf } from "@slipway/testing/histories/Coverage"
import { hostile, legal, play } from "@slipway/testing/histories/Histories"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"

const ENOUGH = 0.01
const lives = Number(process.env["LIVES"] ?? 1500)

describe(`of ${lives} lives`, () => {
  const reached = coverageOf(livesOf(1, lives))

  it("one of a hundred reaches each transition, reason, refusal and command, unless a reason is stated", () => {
    if (process.env["LIVES"] !== undefined) {
      const rows = [...reached].sort((a, b) => a.share - b.share)
      process.stdout.write(
        rows.map(({ excuse, share, what }) => `${(share * 100).toFixed(2).padStart(6)} %  ${what}${excuse === null ? "" : `: ${excuse}`}\n`)
          .join("")
      )
    }
    assert.deepStrictEqual(reached.filter(({ excuse, share }) => share < ENOUGH && excuse === null), [])
  })

  it("few reach what has a reason to be rare", () => {
    assert.deepStrictEqual(reached.filter(({ excuse, share }) => share >= ENOUGH && excuse !== null), [])
  })

  it.each([
    "running > failed by last_turn_failed",
    "approval.resolved by=turn_end",
    "turn awaiting_approval > awaiting_approval",
    "refused: QueueFull",
    "rejected: restore_active",
    "RecordRestore refused"
  ])("the list has %s", (what) => {
    assert.isTrue(reached.some((one) => one.what === what))
  })
})

describe("the lives of Effect's arbitraries", () => {
  it.effect("reach all that the lives of numbers reach, but nothing is refused to sensible people", () =>
    Effect.gen(function*() {
      const [sensible, all] = [
        coverageOf((yield* Arbitrary.sampleEffect(legal, { count: 300, size: 40, seed: 1 })).map(play)),
        coverageOf((yield* Arbitrary.sampleEffect(hostile, { count: 600, size: 40, seed: 1 })).map(play))
      ]
      assert.deepStrictEqual(sensible.filter(({ lives, what }) => lives > 0 && /refused/u.test(what)), [])
      assert.deepStrictEqual(all.filter(({ excuse, lives }) => lives === 0 && excuse === null), [])
    }))
})
