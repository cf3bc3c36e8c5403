/** Answers to the questions of agents, over HTTP: what is applied, each refusal, and the notification (docs/decisions/22). */
import { assert, layer } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { notificationBody } from "@slipway/domain/partner/rules/Notification"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { type Question, questionsOf } from "@slipway/domain/sandbox/rules/Question"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { DateTime, Effect, Redacted } from "effect"
import {
  ask,
  drive,
  json,
  layer as http,
  mintKey,
  postJson,
  refused,
  type Reply,
  running,
  SANDBOXES,
  withoutNames
} from "../testing/Harness.ts"

const QUESTIONS: ReadonlyArray<Question> = [
  { id: "db", text: "Which database?", options: [{ label: "Postgres" }, { label: "SQLite" }], multiple: false, allows_text: false },
  { id: "parts", text: "Which parts?", options: [{ label: "Shop" }, { label: "Cart" }], multiple: true, allows_text: true },
  { id: "why", text: "Why?", options: [], multiple: false, allows_text: true }
]
const ID = "call/1 of a turn"
const ANSWERS = { db: { labels: ["Postgres"] }, parts: { labels: ["Shop", "Cart"], text: "and the rest" } }

/** A sandbox whose agent asks this. */
const asked = Effect.fnUntraced(function*(questions = QUESTIONS) {
  const { grant, key } = yield* mintKey({ grant: yield* (yield* Ids).uuid7 })
  const { id, turn } = yield* running(key)
  yield* drive(id, [{ _tag: "AskQuestion", turnId: turn, question: { question_id: ID, questions } }])
  const send = (body: unknown, questionId = ID, by = key) =>
    postJson(`${SANDBOXES}/${id}/questions/${encodeURIComponent(questionId)}`, by, body)
  return { grantId: grant.id, id, key, send, turn }
})

const find = (grantId: string, id: SandboxId) => Effect.flatMap(SandboxStore, (store) => store.find({ grantId, id }))
const over = Effect.fnUntraced(function*(id: SandboxId) {
  const log = yield* (yield* SandboxStore).log(id, 0, 1000)
  return log.filter(({ type }) => type === "question.answered").map(({ wire }) => JSON.parse(wire).data)
})
const outcomeOf = (reply: Reply) => {
  assert.strictEqual(reply.status, 200, reply.text)
  const { outcome, rejection } = json(reply)
  return rejection === undefined ? outcome : `${outcome} ${rejection}`
}

layer(http(), { excludeTestServices: true })("an answer to a question", (it) => {
  it.effect("is applied once: the same again is its duplicate, any other comes too late", () =>
    Effect.gen(function*() {
      const { grantId, id, send } = yield* asked()
      const first = yield* send({ answers: ANSWERS })
      assert.strictEqual(outcomeOf(first), "applied")
      const again = yield* send({ answers: { parts: { text: "and the rest", labels: ["Cart", "Shop", "Shop"] }, db: ANSWERS.db } })
      assert.deepStrictEqual(json(again), { ...json(first), outcome: "duplicate" })
      for (const body of [{ dismiss: true }, { answers: { db: { labels: ["SQLite"] } } }, { answers: { none: { text: "x" } } }]) {
        assert.strictEqual(outcomeOf(yield* send(body)), "rejected question_already_answered")
      }
      assert.deepStrictEqual(yield* over(id), [{ question_id: ID, by: "user", answers: ANSWERS }])
      const sandbox = yield* find(grantId, id)
      assert.deepStrictEqual([questionsOf(sandbox), sandbox.turn?.state], [[], "running"])
    }))

  it.effect("is one of those that came at once, whatever the others say", () =>
    Effect.gen(function*() {
      const { id, send } = yield* asked()
      const bodies = [{ dismiss: true }, ...["a", "b", "c", "d"].map((text) => ({ answers: { why: { text } } }))]
      const replies = yield* Effect.all([...bodies, ...bodies].map((body) => send(body)), { concurrency: "unbounded" })
      const outcomes = replies.map(outcomeOf)
      assert.deepStrictEqual(
        [...outcomes].sort(),
        ["applied", "duplicate", ...Array.from({ length: 8 }, () => "rejected question_already_answered")]
      )
      const won = bodies[outcomes.indexOf("applied") % bodies.length] ?? {}
      assert.deepStrictEqual(yield* over(id), [{ question_id: ID, by: "user", ...("answers" in won ? won : {}) }])
    }))

  it.effect("that does not fit is refused with its own code, and the question waits on", () =>
    Effect.gen(function*() {
      const { grantId, id, send } = yield* asked()
      const misfits: ReadonlyArray<readonly [unknown, string]> = [
        [{ db: { labels: ["MariaDB"] } }, "The question db has no option “MariaDB”."],
        [{ db: { labels: ["postgres"] } }, "The question db has no option “postgres”."],
        [{ db: { labels: ["Postgres", "SQLite"] } }, "The question db takes one answer."],
        [{ db: { text: "Postgres" } }, "The question db takes no text."],
        [{ why: { labels: ["Shop"] } }, "The question why has no option “Shop”."],
        [{ ...ANSWERS, other: { text: "x" } }, "There is no question other."]
      ]
      for (const [answers, message] of misfits) {
        const reply = yield* send({ answers })
        refused(reply, 400, "invalid_answer")
        assert.strictEqual(json(reply).error.message, message)
      }
      const bad = [
        {},
        { dismiss: false },
        { answers: {} },
        { answers: ANSWERS, dismiss: true },
        { answers: { why: { text: "t".repeat(10_001) } } },
        { answers: { parts: { labels: Array.from({ length: 51 }, (_, i) => `${i}`) } } },
        { answers: Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`q${i}`, { text: "t" }])) }
      ]
      for (const body of bad) refused(yield* send(body), 400, "invalid_request")
      const { turn } = yield* find(grantId, id)
      assert.deepStrictEqual([turn?.state, turn?.questions?.length], ["awaiting_answer", 1])
      assert.deepStrictEqual(yield* over(id), [])
    }))

  it.effect("to an unknown question is not found, and to another grant's exactly so", () =>
    Effect.gen(function*() {
      const { id, send } = yield* asked()
      refused(yield* send({ dismiss: true }, "never asked"), 404, "not_found")
      const stranger = yield* mintKey({ grant: "stranger" })
      const theirs = yield* send({ dismiss: true }, ID, stranger.key)
      refused(theirs, 404, "not_found")
      const missing = yield* postJson(`${SANDBOXES}/c_zzzzzzzzzzzz/questions/${encodeURIComponent(ID)}`, stranger.key, { dismiss: true })
      assert.deepStrictEqual(withoutNames(theirs), withoutNames(missing))
      assert.deepStrictEqual(yield* over(id), [])
    }))

  it.effect.each(
    [
      ["interrupt", "rejected question_already_answered"],
      ["terminate", "rejected sandbox_terminal"],
      ["timeout", "rejected question_expired"],
      ["turn_end", "rejected question_already_answered"]
    ] as const
  )("is refused after %s, which answered for nobody: %s", ([by, outcome]) =>
    Effect.gen(function*() {
      const { id, key, send, turn } = yield* asked()
      if (by === "interrupt" || by === "terminate") yield* ask(`${SANDBOXES}/${id}/${by}`, { method: "POST", key })
      if (by === "turn_end") yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      if (by === "timeout") {
        const limits = yield* Policy
        const now = DateTime.addDuration(yield* DateTime.now, limits.approval)
        yield* (yield* SandboxStore).change(id, "policy", (sandbox) => decide(sandbox, { _tag: "Expire" }, { limits, now }), now)
      }
      assert.deepStrictEqual(yield* over(id), [{ question_id: ID, by }])
      assert.strictEqual(outcomeOf(yield* send({ answers: ANSWERS })), outcome)
      assert.deepStrictEqual(yield* over(id), [{ question_id: ID, by }])
    }))
})

layer(http(), { excludeTestServices: true })("a question", (it) => {
  it.effect("with 1,000 options is not asked: the turn ends, and there is nothing to answer", () =>
    Effect.gen(function*() {
      const options = Array.from({ length: 1000 }, (_, i) => ({ label: `option ${i}` }))
      const { grantId, id, send } = yield* asked([{ id: "1", text: "Which?", options, multiple: false, allows_text: false }])
      refused(yield* send({ answers: { 1: { labels: ["option 1"] } } }), 404, "not_found")
      const { turn } = yield* find(grantId, id)
      assert.deepStrictEqual([turn?.state, turn?.questions ?? []], ["failed", []])
      const log = yield* (yield* SandboxStore).log(id, 0, 1000)
      assert.notInclude(log.map(({ type }) => type), "question.asked")
      const completed = log.find(({ type }) => type === "turn.completed")
      assert.strictEqual(JSON.parse(completed?.wire ?? "{}").data.reason, "output_limit")
    }))

  it.effect("is a notification to the endpoints that chose it, with what is asked", () =>
    Effect.gen(function*() {
      const [store, ids] = [yield* WebhookStore, yield* Ids]
      const { grantId, id, turn } = yield* asked()
      const endpoints = { questions: yield* ids.uuid7, others: yield* ids.uuid7 }
      const register = (endpoint: string, types: Parameters<typeof store.register>[0]["types"]) =>
        Effect.flatMap(DateTime.now, (createdAt) =>
          store.register({ id: endpoint, grantId, url: "https://hooks.example/", types, createdAt }, Redacted.make("whsec_bm90IHVzZWQ=")))
      yield* register(endpoints.questions, ["question.asked"])
      yield* register(endpoints.others, ["approval.requested", "turn.completed"])
      yield* drive(id, [{ _tag: "AskQuestion", turnId: turn, question: { question_id: "second", questions: QUESTIONS } }])
      const [taken, ...more] = (yield* store.takeNotifications(yield* DateTime.now, 1000))
        .filter(({ endpointId }) =>
          Object.values(endpoints).includes(endpointId)
        )
      assert(taken !== undefined)
      assert.deepStrictEqual(more, [])
      assert.strictEqual(taken.endpointId, endpoints.questions)
      const { data, sandbox, type } = JSON.parse(notificationBody(taken.notification))
      assert.deepStrictEqual([type, sandbox.id, data.question_id, data.questions], ["question.asked", id, "second", QUESTIONS])
      assert.match(data.expires_at, /Z$/u)
    }))
})
