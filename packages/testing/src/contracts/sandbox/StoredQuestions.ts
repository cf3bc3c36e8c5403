/** Rules of `SandboxStore` about the questions of agents (docs/decisions/22). */
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { answerQuestion, interrupt } from "@slipway/domain/sandbox/rules/Command"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { questionsOf } from "@slipway/domain/sandbox/rules/Question"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { inquiry, QUESTIONS, REPLY } from "../../histories/Histories.ts"
import { assert } from "../../suite/Assert.ts"
import type { Writer as Rules } from "../../suite/Suite.ts"
import { at, command, drive, eventsOf, keyOf, running, type Stores } from "./SandboxStates.ts"

const asked = Effect.gen(function*() {
  const { ids, sandbox, turn } = yield* running
  return { ids, turn, sandbox: yield* drive(sandbox, [inquiry(turn, "question-1")]) }
})

/** Rules of `SandboxStore`. */
export const storedQuestions = (it: Rules<Stores>) => {
  it.effect("the first answer to a question wins, and repeating it finds the first", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { ids, sandbox } = yield* asked
      const send = (reply: Parameters<typeof answerQuestion>[2], id = "question-1") =>
        command(keyOf(sandbox), answerQuestion(ids, id, reply), at)
      assert.strictEqual((yield* Effect.flip(send(REPLY, "other")))._tag, "QuestionNotFound")
      assert.strictEqual((yield* Effect.flip(send({ answers: { 1: { labels: ["MariaDB"] } } })))._tag, "AnswerInvalid")
      const answered = yield* send(REPLY)
      assert.strictEqual(answered.outcome, "applied")
      assert.deepStrictEqual(yield* send(REPLY), { ...answered, outcome: "duplicate" })
      for (const other of [{ dismiss: true }, { answers: { 1: { text: "MariaDB" } } }] as const) {
        const late = yield* send(other)
        assert.deepStrictEqual([late.outcome, late.rejection], ["rejected", "question_already_answered"])
      }
      const { answers = {} } = REPLY
      assert.deepStrictEqual(yield* store.questions(sandbox.id, ["question-1", "unknown"]), [
        { questionId: "question-1", by: "user", answers }
      ])
      const told = (yield* eventsOf(sandbox.id)).flatMap(({ event }) => event.type === "question.answered" ? [event.data] : [])
      assert.deepStrictEqual(told, [{ question_id: "question-1", by: "user", answers }])
    }))

  it.effect("of many answers at once exactly one is applied", () =>
    Effect.gen(function*() {
      const { ids, sandbox } = yield* asked
      const replies = Array.from({ length: 8 }, (_, i) => ({ answers: { 3: { text: `Because ${i}.` } } }))
      const results = yield* Effect.forEach(
        replies,
        (reply) => command(keyOf(sandbox), answerQuestion(ids, "question-1", reply), at),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(results.map(({ outcome }) => outcome).toSorted(), ["applied", ...Array.from({ length: 7 }, () => "rejected")])
      const answers = (yield* eventsOf(sandbox.id)).filter(({ event }) => event.type === "question.answered")
      assert.lengthOf(answers, 1)
    }))

  it.effect("keeps what waits for an answer with its turn, and shows it in lists and summaries", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { ids, sandbox, turn } = yield* asked
      const limits = yield* Policy
      const requests = [{ question_id: "question-1", questions: QUESTIONS, expires_at: DateTime.addDuration(at, limits.approval) }]
      const query = { after: null, limit: 10, status: null, repo: null }
      const states = Effect.gen(function*() {
        const found = yield* store.find(keyOf(sandbox))
        const [listed] = yield* store.list(sandbox.grantId, query)
        const [summary] = yield* store.summaries(sandbox.grantId, query)
        return [found.turn?.state, listed?.turn?.state, summary?.turn?.state, found.turn?.questions, listed?.turn?.questions]
      })
      assert.deepStrictEqual(yield* states, ["awaiting_answer", "awaiting_answer", "awaiting_answer", requests, requests])
      yield* drive(sandbox, [inquiry(turn, "question-9"), inquiry(turn, "question-10")])
      const all = ["question-1", "question-9", "question-10"]
      assert.deepStrictEqual(questionsOf(yield* store.find(keyOf(sandbox))).map(({ question_id }) => question_id), all)
      for (const wanted of [all, all.toReversed()]) {
        assert.deepStrictEqual(yield* store.questions(sandbox.id, wanted), wanted.map((questionId) => ({ questionId, by: null })))
      }
      const other = yield* running
      assert.deepStrictEqual(yield* store.questions(other.sandbox.id, all), [])
      yield* command(keyOf(sandbox), interrupt(ids), at)
      assert.deepStrictEqual(yield* store.questions(sandbox.id, all), all.map((questionId) => ({ questionId, by: "interrupt" })))
      assert.deepStrictEqual(yield* states, ["running", "running", "running", undefined, undefined])
    }))

  it.effect("a question expires when its people were told it would, without an answer", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const limits = yield* Policy
      const { ids, sandbox } = yield* asked
      const late = DateTime.addDuration(at, limits.approval)
      const expire = (now: DateTime.Utc) =>
        store.change(sandbox.id, "policy", (state) => decide(state, { _tag: "Expire" }, { limits, now }), now)
      assert.deepStrictEqual((yield* expire(DateTime.subtractDuration(late, Duration.millis(1)))).events, [])
      const { events } = yield* expire(late)
      assert.deepStrictEqual(events.map(({ type }) => type), ["question.answered", "turn.updated"])
      assert.deepStrictEqual(yield* store.questions(sandbox.id, ["question-1"]), [{ questionId: "question-1", by: "timeout" }])
      assert.deepInclude(yield* command(keyOf(sandbox), answerQuestion(ids, "question-1", REPLY), late), {
        outcome: "rejected",
        rejection: "question_expired"
      })
    }))
}
