import { assert, it } from "@effect/vitest"
import { completedSteps, PLAN_ENTRIES, PLAN_TEXT, shownPlan } from "../../src/sandbox/rules/ToolCall.ts"

it("a step is one line of at most 500 characters, in which hidden characters are named", () => {
  const [long, odd, lone] = shownPlan([
    { text: "\u{1F680}".repeat(PLAN_TEXT), status: "pending" },
    { text: "  a\u202eb\nc ", status: "in_progress" },
    { text: "x\ud800", status: "completed" }
  ])
  assert.isAtMost(long?.text.length ?? 0, PLAN_TEXT)
  assert.match(long?.text ?? "", /^\u{1F680}+…$/u)
  assert.notMatch(odd?.text ?? "", /[\u202e\n]/u)
  assert.strictEqual(odd?.status, "in_progress")
  assert.isTrue(lone?.text.isWellFormed())
})

it("a plan has at most 100 steps, and no empty ones", () => {
  const many = Array.from({ length: PLAN_ENTRIES + 10 }, (_, i) => ({ text: i % 2 === 0 ? `${i}` : " ", status: "completed" as const }))
  assert.deepStrictEqual(shownPlan(many).map(({ text }) => text), Array.from({ length: 55 }, (_, i) => `${2 * i}`))
  assert.lengthOf(shownPlan([...many, ...many]), PLAN_ENTRIES)
  assert.strictEqual(completedSteps(shownPlan(many)), 55)
})
