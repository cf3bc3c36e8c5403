/** Questions of agents that speak ACP, in grok's own extension of it. */
import { assert, describe, it } from "@effect/vitest"
import type { Answers } from "@slipway/domain/sandbox/rules/Question"
import { Effect, Result } from "effect"
import * as AcpSession from "../src/acp/AcpSession.ts"
import type { AcpQuirks } from "../src/Profile.ts"
import { grok } from "../src/profiles/grok.ts"
import { type Frame, make } from "../testing/FakeProcess.ts"
import { converse, options } from "../testing/Session.ts"

const quirks: AcpQuirks = grok.dialect === "acp" ? { ...(grok.acp.questions && { questions: grok.acp.questions }) } : {}

const which = {
  question: "Which?",
  options: [{ label: "A", description: "a" }, { label: "B", description: "b", preview: "…" }],
  multiSelect: true
}
const why = { question: "Why?", options: [] }
const asking = (params: object) => ({
  jsonrpc: "2.0",
  id: "ask-1",
  method: "_x.ai/ask_user_question",
  params: { sessionId: "s1", toolCallId: "c1", mode: "default", ...params }
})

/** A turn of an agent that asks this and ends when it is answered. */
const run = Effect.fnUntraced(function*(params: object, answers: Answers | null = null, given: AcpQuirks = quirks) {
  let prompt: Frame = {}
  const fake = yield* make((frame) => {
    if (frame.method === "initialize") return [{ jsonrpc: "2.0", id: frame.id, result: { protocolVersion: 1 } }]
    if (frame.method === "session/new") return [{ jsonrpc: "2.0", id: frame.id, result: { sessionId: "s1" } }]
    if (frame.method === "session/prompt") {
      prompt = frame
      return [asking(params)]
    }
    return frame.id === "ask-1" ? [{ jsonrpc: "2.0", id: prompt.id, result: { stopReason: "end_turn" } }] : []
  })
  const session = yield* AcpSession.open(fake.process, options, given)
  const { events, outcome } = yield* converse(
    session,
    (event) => event._tag === "QuestionAsked" ? session.answer(event.questionId, answers) : Effect.void
  )
  assert.deepStrictEqual(outcome, Result.succeed({ state: "succeeded" as const }))
  const replies = fake.received.filter(({ id }) => id === "ask-1")
  assert.lengthOf(replies, 1)
  return { asked: events.flatMap((event) => event._tag === "QuestionAsked" ? [event.questions] : []), reply: replies[0] }
}, Effect.scoped)

const UNANSWERED = "(No person answered this question.)"

describe("when grok asks the person", () => {
  it.live.each(
    [
      [{ 1: { labels: ["B", "A"], text: "or C" }, 2: { text: "So" } }, { "Which?": ["B", "A", "or C"], "Why?": ["So"] }],
      [{ 2: { text: "So" } }, { "Which?": [UNANSWERED], "Why?": ["So"] }],
      [null, { "Which?": [UNANSWERED], "Why?": [UNANSWERED] }]
    ] as const
  )("its questions are shown, and it hears %j", ([answers, told]) =>
    Effect.gen(function*() {
      const { asked, reply } = yield* run({ questions: [which, why] }, answers)
      assert.deepStrictEqual(asked, [[
        {
          id: "1",
          text: "Which?",
          options: [{ label: "A", description: "a" }, { label: "B", description: "b" }],
          multiple: true,
          allows_text: true
        },
        { id: "2", text: "Why?", options: [], multiple: false, allows_text: true }
      ]])
      assert.deepStrictEqual(reply?.result, { outcome: "accepted", answers: told })
    }))

  it.live.each<readonly [string, object, RegExp]>([
    ["too many options", { questions: [{ ...which, options: Array.from({ length: 1000 }, (_, i) => ({ label: `${i}` })) }] },
      /50 options/u],
    ["the same question twice", { questions: [why, why] }, /must differ/u],
    ["nothing that can be read", { questions: "x" }, /cancelled/u],
    ["a question of a session that is not its own", { sessionId: "s9", questions: [why] }, /No person answered/u]
  ])("no person is asked %s, and it hears so at once", ([, params, said]) =>
    Effect.gen(function*() {
      const { asked, reply } = yield* run(params)
      assert.deepStrictEqual(asked, [])
      assert.match(JSON.stringify(reply?.result), said)
    }))

  it.live("an agent without such a request is told that it is unknown", () =>
    Effect.gen(function*() {
      const { asked, reply } = yield* run({ questions: [why] }, null, {})
      assert.deepStrictEqual(asked, [])
      assert.deepStrictEqual(reply?.error, { code: -32601, message: "method not found: _x.ai/ask_user_question" })
    }))
})
