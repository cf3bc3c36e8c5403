import { assert, describe, it } from "@effect/vitest"
import type { StreamEvent } from "@slipway/client"
import { after, described, empty, lineComment } from "../../../src/commands/client/Feedback.ts"

const ID = "c_abcdefgh2345"
const NEXT = "c_bcdefghi2345"

const event = <const T extends "feedback.received" | "feedback.replied" | "feedback.paused" | "feedback.resumed">(
  type: T,
  data: Extract<StreamEvent, { readonly type: T }>["data"]
): StreamEvent => ({ version: "v1", id: "1", sandbox_id: ID, ts: "2026-11-29T20:00:00Z", type, data }) as StreamEvent

const received = (more: { readonly count?: number; readonly round?: number; readonly sandbox_id?: string } = {}) =>
  event("feedback.received", { repo: "acme/shop", kind: "review", url: "", authors: ["maria"], count: 1, round: 0, ...more } as never)
const replied = event("feedback.replied", { repo: "acme/shop", url: "https://host.test/1" })
const paused = (reason?: string) => event("feedback.paused", { repo: "acme/shop", rounds: 3, ...(reason === undefined ? {} : { reason }) })

const told = (...events: ReadonlyArray<StreamEvent>) => described(events.reduce(after, empty(ID)))

describe("slipway feedback", () => {
  it("says when there was none", () => {
    assert.strictEqual(told(), "No feedback so far.\nFeedback is not paused.")
  })

  it("counts messages, items and replies, and says whether the newest message has its reply", () => {
    const count = "2 messages with 4 items of feedback"
    assert.strictEqual(
      told(received({ count: 3 }), replied, received()),
      `${count}, 1 reply.\nThe agent has the newest feedback and no reply is written yet.`
    )
    assert.strictEqual(told(received({ count: 3 }), replied, received(), replied), `${count}, 2 replies.\nFeedback is not paused.`)
  })

  it("says how to go on after a pause, until a person did", () => {
    assert.include(told(received(), replied, paused()), `3 rounds without a person's word. Continue: slipway feedback ${ID} --resume`)
    const resumed = event("feedback.resumed", { author: { id: "ada" } })
    for (const end of [resumed, received()]) assert.notInclude(told(paused(), end), "paused after")
  })

  it("names the sandbox that continues a finished one, or the reason why none does", () => {
    assert.include(told(received(), replied, received({ sandbox_id: NEXT })), `${NEXT} goes on: slipway feedback ${NEXT}`)
    assert.include(told(paused("The creator\nis gone.")), "Feedback is paused: The creator is gone. The service tries again each hour.")
  })

  it("lets no reason write to the terminal", () => {
    assert.notInclude(told(paused("\u001b[2J\u202e")), "\u001b")
  })

  it("takes comments on lines as FILE:LINE: TEXT", () => {
    assert.deepStrictEqual(lineComment("src/cart.ts:12: Keep: the rounding.\nPlease. "), {
      path: "src/cart.ts",
      line: 12,
      text: "Keep: the rounding.\nPlease."
    })
    assert.deepStrictEqual(lineComment("a:b.ts:3:x"), { path: "a:b.ts", line: 3, text: "x" })
    for (const bad of ["", "a.ts", "a.ts:0: x", "a.ts:1:", "a.ts:1: ", ":1: x", "a.ts:-1: x", "a.ts:9999999999: x"]) {
      assert.isNull(lineComment(bad), bad)
    }
  })
})
