/** The questions of an agent on pages: the form, what it answers without a script, and each refusal. */
import { assert, layer } from "@effect/vitest"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Question } from "@slipway/domain/sandbox/rules/Question"
import { Effect } from "effect"
import { type Fields, redirected, textOf, visitor } from "../../../testing/Browser.ts"
import { drive, layer as http, type Reply, running } from "../../../testing/Harness.ts"

const QUESTIONS: ReadonlyArray<Question> = [
  {
    id: "1",
    text: "Which <database>?",
    header: "Storage",
    options: [{ label: "Postgres", description: "as now" }, { label: `"SQLite"` }],
    multiple: false,
    allows_text: true
  },
  { id: "2", text: "Which parts?", options: [{ label: "Shop" }, { label: "Cart" }], multiple: true, allows_text: false },
  { id: "3", text: "Why?", options: [], multiple: false, allows_text: true }
]

/** A sandbox of a signed-in person whose agent asks these requests. */
const asked = Effect.fnUntraced(function*(grant: string, ...requests: ReadonlyArray<readonly [string, ReadonlyArray<Question>]>) {
  const person = yield* visitor(grant)
  const { id, turn } = yield* running(person.key)
  for (const [question_id, questions] of requests) {
    yield* drive(id, [{ _tag: "AskQuestion", turnId: turn, question: { question_id, questions } }])
  }
  const store = yield* SandboxStore
  const over = Effect.map(
    store.log(id, 0, 1000),
    (log) => log.filter(({ type }) => type === "question.answered").map(({ wire }) => JSON.parse(wire).data)
  )
  const at = (question: string) => `/sandboxes/${id}/questions/${encodeURIComponent(question)}`
  return { ...person, at, id, over, turn }
})

const cards = ({ text }: Reply) => text.match(/<li class="approval question"[^]*?<\/li>/gu) ?? []

layer(http(), { excludeTestServices: true })("the question of an agent", (it) => {
  it.effect("is a form on the page of the sandbox, with the agent's words as text, and on a page of its own", () =>
    Effect.gen(function*() {
      const { at, get, id } = yield* asked("reader", ["call/1", QUESTIONS])
      for (const address of [`/sandboxes/${id}`, at("call/1")]) {
        const page = yield* get(address)
        assert.strictEqual(page.status, 200)
        const [card = "", ...others] = cards(page)
        assert.deepStrictEqual(others, [])
        assert.include(card, `action="/sandboxes/${id}/questions/call%2F1"`)
        assert.include(card, "The agent asks 3 questions")
        assert.include(card, "<strong>Storage</strong> Which &lt;database&gt;?")
        const inputs = [...card.matchAll(/<input type="(radio|checkbox)"[^>]* name="([^"]*)" value="([^"]*)"/gu)].map((one) => one.slice(1))
        assert.deepStrictEqual(inputs, [
          ["radio", "labels:1", "Postgres"],
          ["radio", "labels:1", "&quot;SQLite&quot;"],
          ["checkbox", "labels:2", "Shop"],
          ["checkbox", "labels:2", "Cart"]
        ])
        assert.deepStrictEqual([...card.matchAll(/<textarea[^>]* name="([^"]*)"/gu)].map(([, name]) => name), ["text:1", "text:3"])
        // Each field has a label of its own.
        const fields = [...card.matchAll(/<(?:input type="(?:radio|checkbox)"|textarea) id="([^"]+)"/gu)].map(([, one]) => one)
        assert.deepStrictEqual([...card.matchAll(/<label[^>]* for="([^"]+)"/gu)].map(([, one]) => one), fields)
      }
      assert.include(textOf(yield* get(`/sandboxes/${id}`)), "Needs you")
    }))

  it.effect("is answered by the form, with what was chosen and written, and then is over", () =>
    Effect.gen(function*() {
      const { at, get, id, over, post } = yield* asked("answerer", ["a", QUESTIONS], ["b", QUESTIONS])
      const form = { "reply": "answer", "labels:1": "Postgres", "labels:2": ["Shop", "Cart"], "text:1": " ", "text:3": " So\r\nit is. " }
      redirected(yield* post(at("a"), form), `/sandboxes/${id}?done=answered`)
      const answers = { 1: { labels: ["Postgres"] }, 2: { labels: ["Shop", "Cart"] }, 3: { text: "So\nit is." } }
      assert.deepStrictEqual(yield* over, [{ question_id: "a", by: "user", answers }])
      assert.include(textOf(yield* get(`/sandboxes/${id}?done=answered`)), "Answered.")
      for (const late of [form, { ...form, "text:3": "Not so." }, { reply: "dismiss" }]) {
        redirected(yield* post(at("a"), late), `/sandboxes/${id}?done=question_already_answered`)
      }
      assert.include(textOf(yield* get(`/sandboxes/${id}?done=question_already_answered`)), "Already answered; the first answer stands.")
      const gone = yield* get(at("a"))
      assert.strictEqual(gone.status, 404)
      assert.include(textOf(gone), "This question is no longer waiting.")
      // A text in the person's own words is meant instead of an option.
      redirected(yield* post(at("b"), { "reply": "answer", "labels:1": "Postgres", "text:1": "MariaDB" }), `/sandboxes/${id}?done=answered`)
      assert.deepStrictEqual((yield* over).at(-1), { question_id: "b", by: "user", answers: { 1: { text: "MariaDB" } } })
      assert.deepStrictEqual(cards(yield* get(`/sandboxes/${id}`)), [])
    }))

  it.effect("is dismissed without an answer, whatever else the form says", () =>
    Effect.gen(function*() {
      const { at, id, over, post } = yield* asked("dismisser", ["a", QUESTIONS])
      redirected(yield* post(at("a"), { "reply": "dismiss", "labels:1": "Postgres" }), `/sandboxes/${id}?done=dismissed`)
      assert.deepStrictEqual(yield* over, [{ question_id: "a", by: "user" }])
      redirected(yield* post(at("a"), { reply: "dismiss" }), `/sandboxes/${id}?done=duplicate`)
      // An answer that came too late is not told that all is done.
      redirected(yield* post(at("a"), { "reply": "answer", "labels:1": "Postgres" }), `/sandboxes/${id}?done=question_already_answered`)
    }))

  it.effect("takes no form without an answer, with one that does not fit, or of somebody else", () =>
    Effect.gen(function*() {
      const { at, get, id, over, post } = yield* asked("careful", ["a", QUESTIONS])
      const refused: ReadonlyArray<readonly [Fields, number, string]> = [
        [{ "reply": "answer", "text:3": " " }, 400, "Choose an option or write an answer."],
        [{ "reply": "answer", "labels:1": "MariaDB" }, 400, "The question 1 has no option “MariaDB”."],
        [{ "reply": "answer", "labels:1": ["Postgres", `"SQLite"`] }, 400, "The question 1 takes one answer."],
        [{ "reply": "answer", "text:2": "All of them" }, 400, "The question 2 takes no text."],
        [{ "reply": "answer", "text:3": "t".repeat(10_001) }, 400, "text"],
        [{ "reply": "answer", "labels:1": "Postgres", "csrf": "guessed" }, 403, ""],
        [{}, 400, ""]
      ]
      for (const [fields, status, text] of refused) {
        const reply = yield* post(at("a"), fields)
        assert.strictEqual(reply.status, status, JSON.stringify(fields).slice(0, 100))
        assert.include(textOf(reply), text)
      }
      assert.strictEqual((yield* post(at("none"), { "reply": "answer", "labels:1": "Postgres" })).status, 404)
      const stranger = yield* visitor("stranger")
      for (const reply of [yield* stranger.get(at("a")), yield* stranger.post(at("a"), { reply: "dismiss" })]) {
        assert.strictEqual(reply.status, 404)
        assert.notInclude(reply.text, "database")
      }
      assert.deepStrictEqual(yield* over, [])
      assert.lengthOf(cards(yield* get(`/sandboxes/${id}`)), 1)
    }))

  it.effect("that has no space on the page of the sandbox is linked there, and answered on its own", () =>
    Effect.gen(function*() {
      const large = Array.from({ length: 10 }, (_, i): Question => ({
        id: `${i}`,
        text: `Which of ${i}? ${"x".repeat(3900)}`,
        options: [],
        multiple: false,
        allows_text: true
      }))
      const names = Array.from({ length: 8 }, (_, i) => `request-${i}`)
      const { at, get, id, post } = yield* asked("patient", ...names.map((name) => [name, large] as const))
      const page = yield* get(`/sandboxes/${id}`)
      const shown = cards(page).filter((card) => card.includes("<textarea"))
      const links = [...page.text.matchAll(/<a href="([^"]*\/questions\/[^"]+)">Answer…<\/a>/gu)].map(([, href]) => href ?? "")
      assert.isNotEmpty(shown)
      assert.isNotEmpty(links)
      assert.deepStrictEqual(links, names.slice(shown.length).map(at))
      const [first = ""] = links
      assert.lengthOf(cards(yield* get(first)), 1)
      redirected(yield* post(first, { "reply": "answer", "text:0": "The first." }), `/sandboxes/${id}?done=answered`)
    }))
})
