import { assert, describe, it } from "@effect/vitest"
import { attentionStateOf } from "@slipway/domain/sandbox/rules/AttentionState"
import { answerQuestion } from "@slipway/domain/sandbox/rules/Command"
import { takesSlot, workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import { misfitOf, type Question, questionsOf, refusalOf, replyText } from "@slipway/domain/sandbox/rules/Question"
import { evolveAll } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { QuestionReply } from "@slipway/domain/sandbox/schema/Question"
import { MAX_OPTIONS, MAX_QUESTIONS } from "@slipway/domain/sandbox/schema/QuestionBounds"
import { Turn } from "@slipway/domain/sandbox/schema/Turn"
import {
  type Asked,
  createdAt,
  given,
  type History,
  ids,
  inquiry,
  limits,
  QUESTIONS,
  reach,
  REPLY,
  request
} from "@slipway/testing/histories/Histories"
import * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const turn = reach("working").turn
const answer = (reply: QuestionReply, questionId = "question-1"): Asked => ({ _tag: "Answer", questionId, reply })
const over = (question_id: string, by: string, more: object = {}) =>
  ({ type: "question.answered", turn_id: turn, data: { question_id, by, ...more } }) as const
const step = (state: string, previous: string) => ({ type: "turn.updated", turn_id: turn, data: { state, previous } }) as const

describe("a question", () => {
  const expires_at = DateTime.addDuration(createdAt, limits.approval)

  it("shows what is asked and when it expires, and the turn waits without a slot", () => {
    const { after, events } = reach("working").system(inquiry(turn, "question-1"))
    const data = { question_id: "question-1", questions: QUESTIONS, expires_at }
    assert.deepStrictEqual<ReadonlyArray<object>>(events, [
      { type: "question.asked", turn_id: turn, data },
      step("awaiting_answer", "running")
    ])
    assert.deepStrictEqual(questionsOf(after), [data])
    assert.deepStrictEqual([workOf(after), takesSlot(after), attentionStateOf(after)], ["turn", false, "asking"])
  })

  it("that comes twice is one question", () => {
    given("inquiring").when(inquiry(turn, "question-1")).then([])
  })

  it("is answered once: the same answer again is a duplicate, another one comes too late", () => {
    const { answers = {} } = REPLY
    const answered = [over("question-1", "user", { answers }), step("running", "awaiting_answer")] as never
    given("inquiring").when(answer(REPLY)).then(answered)
    given("inquiring").when(answer(REPLY), answer(REPLY)).then("duplicate")
    const reordered = { answers: { 3: { text: "As before." }, 2: { labels: ["Cart", "Shop", "Cart"] }, 1: { labels: ["Postgres"] } } }
    given("inquiring").when(answer(REPLY), answer(reordered)).then("duplicate")
    for (const other of [{ answers: { 1: { labels: ["SQLite"] } } }, { dismiss: true }] as const) {
      given("inquiring").when(answer(REPLY), answer(other)).then("question_already_answered")
    }
  })

  it("that is dismissed has no answer, and is over for good", () => {
    given("inquiring").when(answer({ dismiss: true })).then([over("question-1", "user"), step("running", "awaiting_answer")] as never)
    given("inquiring").when(answer({ dismiss: true }), answer({ dismiss: true })).then("duplicate")
    given("inquiring").when(answer({ dismiss: true }), answer(REPLY)).then("question_already_answered")
  })

  it("of another sandbox, or that was never asked, is not found", () => {
    given("inquiring").when(answer(REPLY, "question-2")).then("QuestionNotFound")
    given("idle").when(answer(REPLY)).then("QuestionNotFound")
  })

  it.each<readonly [string, NonNullable<QuestionReply["answers"]>]>([
    ["an unknown question", { 4: { text: "Yes." } }],
    ["an unknown option", { 1: { labels: ["MariaDB"] } }],
    ["two options where one is taken", { 1: { labels: ["Postgres", "SQLite"] } }],
    ["an option and a text where one is taken", { 1: { labels: ["Postgres"], text: "Or not." } }],
    ["a text where none is taken", { 2: { text: "All." } }],
    ["an option where there is none", { 3: { labels: ["Postgres"] } }]
  ])("takes no answer to %s, and waits on", (_, answers) => {
    given("inquiring").when(answer({ answers })).then("AnswerInvalid")
    const history = reach("inquiring")
    history.person(answer({ answers }))
    assert.strictEqual(history.person(answer(REPLY)).result?.outcome, "applied")
  })

  it("may be answered in part, and by a text instead of an option", () => {
    assert.isNull(misfitOf({ questions: QUESTIONS }, { 1: { text: "MariaDB" } }))
    assert.isNull(misfitOf({ questions: QUESTIONS }, { 2: { labels: ["Cart", "Shop"] } }))
  })

  it.each<readonly [string, (history: History) => unknown, string]>([
    ["interrupt", (history) => history.person({ _tag: "Interrupt" }), "interrupt"],
    ["terminate", (history) => history.person({ _tag: "Terminate" }), "terminate"],
    ["the end of the turn", (history) => history.system({ _tag: "EndTurn", turnId: turn, state: "succeeded" }), "turn_end"],
    ["time", (history) => history.wait(limits.approval).system({ _tag: "Expire" }), "timeout"]
  ])("is not answered by anybody at %s, which ends every pending one, oldest first", (_, act, by) => {
    const history = reach("inquiring")
    history.system(inquiry(turn, "question-2"))
    act(history)
    const ended = history.moments.at(-1)?.events.filter(({ type }) => type === "question.answered")
    assert.deepStrictEqual<ReadonlyArray<object> | undefined>(
      ended?.map(({ data }) => data),
      ["question-1", "question-2"].map((question_id) => ({ question_id, by }))
    )
    assert.deepStrictEqual(questionsOf(history.sandbox), [])
    assert.notStrictEqual(history.sandbox.turn?.state, "awaiting_answer")
    const late = history.person(answer(REPLY)).result?.rejection
    assert.strictEqual(late, by === "terminate" ? "sandbox_terminal" : by === "timeout" ? "question_expired" : "question_already_answered")
  })

  it("that is asked while the turn is being interrupted is over at once", () => {
    const { after, events } = reach("interrupting").system(inquiry(turn, "question-1"))
    assert.deepStrictEqual<ReadonlyArray<object>>(events.slice(1), [over("question-1", "interrupt")])
    assert.deepStrictEqual([questionsOf(after), after.turn?.state], [[], "running"])
  })

  it("waits behind approvals: the turn waits for an approval first", () => {
    const history = reach("inquiring")
    assert.deepStrictEqual<object | undefined>(
      history.system(request(turn, "call-1")).events[1],
      step("awaiting_approval", "awaiting_answer")
    )
    assert.deepStrictEqual(history.person(answer(REPLY)).events.map(({ type }) => type), ["question.answered"])
    history.system(inquiry(turn, "question-2"))
    const decided = history.person({ _tag: "Decide", approvalId: "call-1", decision: "approve" })
    assert.deepStrictEqual<object | undefined>(decided.events[1], step("awaiting_answer", "awaiting_approval"))
  })
})

describe("the bounds of questions", () => {
  const question: Question = { id: "1", text: "Which?", options: [{ label: "a" }], multiple: false, allows_text: false }
  const options = (count: number) => Array.from({ length: count }, (_, i) => ({ label: `option ${i}` }))

  it("refuse what no person can answer, with a sentence for the agent", () => {
    assert.isNull(refusalOf([question]))
    assert.isNull(refusalOf([{ ...question, options: options(MAX_OPTIONS) }]))
    assert.isNull(refusalOf(Array.from({ length: MAX_QUESTIONS }, (_, i) => ({ ...question, id: String(i) }))))
    const refused: ReadonlyArray<readonly [string, ReadonlyArray<Question>]> = [
      ["A request may have 1 to 10 questions.", []],
      ["A request may have 1 to 10 questions.", Array.from({ length: 11 }, (_, i) => ({ ...question, id: String(i) }))],
      ["A question may have 50 options.", [{ ...question, options: options(1000) }]],
      ["A question may have 4000 characters.", [{ ...question, text: "?".repeat(4001) }]],
      ["A question without options must allow a text.", [{ ...question, options: [] }]],
      ["The options of a question need different labels.", [{ ...question, options: [{ label: "a" }, { label: "a" }] }]],
      ["The options of a question need different labels.", [{ ...question, options: [{ label: " " }] }]],
      ["A header or an option is too long.", [{ ...question, options: [{ label: "a".repeat(301) }] }]],
      ["The questions of a request need different ids.", [question, question]],
      ["A question has no text or no valid id.", [{ ...question, text: " " }]],
      ["A question has no text or no valid id.", [{ ...question, id: "__proto__" }]]
    ]
    for (const [sentence, questions] of refused) assert.strictEqual(refusalOf(questions), sentence)
    const large = { ...question, options: options(50).map((one) => ({ ...one, description: "d".repeat(2000) })) }
    assert.match(refusalOf([large]) ?? "", /65536 bytes/u)
  })

  it("end the turn of a driver that does not keep them, and of a driver that asks without end", () => {
    const ends = (history: History) => history.sandbox.turn?.state === "failed"
    const history = reach("working")
    history.system({
      _tag: "AskQuestion",
      turnId: turn,
      question: { question_id: "q", questions: [{ ...question, options: options(1000) }] }
    })
    assert.isTrue(ends(history))
    const many = reach("working")
    for (let n = 1; n <= 10; n++) many.system(inquiry(turn, `question-${n}`))
    assert.isFalse(ends(many))
    many.system(inquiry(turn, "question-11"))
    assert.isTrue(ends(many))
    assert.deepStrictEqual(questionsOf(many.sandbox), [])
  })
})

describe("a reply", () => {
  it("has answers or dismisses, within its bounds", () => {
    const replies: ReadonlyArray<readonly [boolean, unknown]> = [
      [true, REPLY],
      [true, { dismiss: true }],
      [true, { answers: { 1: { labels: ["a"], text: "t" } } }],
      [false, {}],
      [false, { dismiss: false }],
      [false, { dismiss: true, ...REPLY }],
      [false, { answers: {} }],
      [false, { answers: { 1: {} } }],
      [false, { answers: { 1: { labels: [] } } }],
      [false, { answers: { 1: { text: "" } } }],
      [false, { answers: { 1: { text: "t".repeat(10_001) } } }],
      [false, { answers: { 1: { labels: Array.from({ length: 51 }, String) } } }],
      [false, { answers: Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`q${i}`, { text: "t" }])) }],
      [false, { answers: JSON.parse(`{"__proto__":{"text":"t"}}`) }]
    ]
    for (const [isValid, reply] of replies) {
      assert.strictEqual(Schema.is(QuestionReply)(reply), isValid, JSON.stringify(reply).slice(0, 100))
    }
  })

  it("is the same in any order", () => {
    assert.strictEqual(
      replyText({ answers: { b: { labels: ["y", "x"] }, a: { text: "t" } } }),
      replyText({ answers: { a: { text: "t" }, b: { labels: ["x", "y", "x"] } } })
    )
    assert.notStrictEqual(replyText({ answers: { a: { text: "dismiss" } } }), replyText({}))
  })
})

describe("a turn that waits for an answer", () => {
  const [encode, decode] = [Schema.encodeSync(Turn), Schema.decodeUnknownSync(Turn)]

  it("is stored so that an earlier version reads it as a turn that waits for an approval", () => {
    const { sandbox } = reach("inquiring")
    const stored = sandbox.turn === null ? assert.fail() : encode(sandbox.turn)
    assert.deepStrictEqual([stored.state, stored.awaits], ["awaiting_approval", "awaiting_answer"])
    assert.deepStrictEqual(decode(JSON.parse(JSON.stringify(stored))), sandbox.turn)
  })

  it("goes on with the answer also if an earlier version wrote its row, which leaves out what it does not know", () => {
    const { sandbox } = reach("inquiring")
    const { awaits: _awaits, questions: _questions, ...earlier } = encode(sandbox.turn ?? assert.fail())
    const before = { ...sandbox, turn: decode(earlier) }
    const decided = answerQuestion(ids, "question-1", REPLY).decide({
      sandbox: before,
      receipt: null,
      approval: null,
      question: { questionId: "question-1", by: null },
      isMessage: false
    })
    const { events } = Result.getOrThrow(decided) as { readonly events: ReadonlyArray<SandboxEvent> }
    assert.deepStrictEqual(events.map(({ type }) => type), ["question.answered", "turn.updated"])
    assert.strictEqual(evolveAll(before, events, createdAt).turn?.state, "running")
  })
})
