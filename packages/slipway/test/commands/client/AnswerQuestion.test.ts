/** `slipway answer` against the HTTP side on memory stores. */
import { assert, layer } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Question } from "@slipway/domain/sandbox/rules/Question"
import { address, drive, layer as http, mintKey, running } from "@slipway/http/testing/Harness"
import { Effect } from "effect"
import { folder, runHere } from "../SlipwayProcess.ts"

const LONG = 300_000

const QUESTIONS: ReadonlyArray<Question> = [
  { id: "db", text: "Which database?", options: [{ label: "Postgres" }, { label: "SQLite" }], multiple: false, allows_text: false },
  { id: "parts", text: "Which\u001b parts?", options: [{ label: "Shop" }, { label: "Cart" }], multiple: true, allows_text: true }
]

/** A sandbox whose agent asks these requests, and the command. */
const asked = Effect.fnUntraced(function*(...requests: ReadonlyArray<string>) {
  const { key } = yield* mintKey({ grant: yield* (yield* Ids).uuid7 })
  const { id, turn } = yield* running(key)
  for (const question_id of requests) {
    yield* drive(id, [{ _tag: "AskQuestion", turnId: turn, question: { question_id, questions: QUESTIONS } }])
  }
  const { host, port } = yield* address
  const data = yield* folder
  const settings = { SLIPWAY_URL: `http://${host}:${port}`, SLIPWAY_API_KEY: key }
  const store = yield* SandboxStore
  return {
    id,
    answer: (...args: ReadonlyArray<string>) => runHere(data, ["answer", id, ...args], settings),
    over: Effect.map(
      store.log(id, 0, 1000),
      (log) => log.filter(({ type }) => type === "question.answered").map(({ wire }) => JSON.parse(wire).data)
    )
  }
})

layer(http(), { excludeTestServices: true })("slipway answer", (it) => {
  it.effect("answers each question in order, by number, by label and in own words, and prints what it sent", () =>
    Effect.gen(function*() {
      const { answer, over } = yield* asked("first", "second", "third")
      assert.deepStrictEqual(yield* answer("--question", "second", "2", "1,2"), { code: 0, stdout: "answered.\n", stderr: "" })
      assert.deepStrictEqual(yield* answer("--question", "first", "-", "nothing else"), { code: 0, stdout: "answered.\n", stderr: "" })
      const told = yield* answer("postgres", "Cart", "--json")
      assert.deepStrictEqual([told.code, told.stderr], [0, ""])
      const answers = { db: { labels: ["Postgres"] }, parts: { labels: ["Cart"] } }
      assert.deepInclude(JSON.parse(told.stdout), { questionId: "third", answers, outcome: "applied" })
      assert.deepStrictEqual(yield* over, [
        { question_id: "second", by: "user", answers: { db: { labels: ["SQLite"] }, parts: { labels: ["Shop", "Cart"] } } },
        { question_id: "first", by: "user", answers: { parts: { text: "nothing else" } } },
        { question_id: "third", by: "user", answers }
      ])
    }), LONG)

  it.effect("dismisses without an answer, also when each question is left out", () =>
    Effect.gen(function*() {
      const { answer, over } = yield* asked("first", "second")
      const both = yield* answer("--dismiss", "Postgres", "Shop")
      assert.strictEqual(both.code, 2)
      assert.include(both.stderr, "--dismiss goes without answers.")
      assert.deepStrictEqual(yield* answer("--question", "first", "--dismiss"), { code: 0, stdout: "dismissed.\n", stderr: "" })
      assert.deepStrictEqual(yield* answer("-", "-"), { code: 0, stdout: "dismissed.\n", stderr: "" })
      assert.deepStrictEqual(yield* over, [{ question_id: "first", by: "user" }, { question_id: "second", by: "user" }])
    }), LONG)

  it.effect("sends nothing that is unclear, and says what is asked", () =>
    Effect.gen(function*() {
      const { answer, over } = yield* asked("first", "second")
      const unclear = yield* answer("1", "2")
      assert.strictEqual(unclear.code, 2)
      assert.include(unclear.stderr, "several questions wait: name one with --question.")
      for (const text of ["first:", "second:", "Which database?", "1  Postgres", "2  SQLite", "⟨ESC⟩"]) assert.include(unclear.stderr, text)
      const wrong: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
        [["1"], "give 2 answers, one for each question in order; - leaves one out, or --dismiss:"],
        [[], "give 2 answers, one for each question in order; - leaves one out, or --dismiss:"],
        [["3", "1"], "The options are numbered from 1 to 2."],
        [["1,2", "1"], "Choose one option."],
        [["MariaDB", "1"], "Choose from the options by their numbers."],
        [["1", " "], "an answer is empty."]
      ]
      for (const [args, why] of wrong) {
        const refused = yield* answer("--question", "first", ...args)
        assert.deepStrictEqual([refused.code, refused.stdout], [2, ""], args.join())
        assert.include(refused.stderr, why)
      }
      assert.deepStrictEqual(yield* over, [])
    }), LONG)

  it.effect("tells where nothing waits, and by its code that a rule says no", () =>
    Effect.gen(function*() {
      const { answer, id } = yield* asked("first")
      const unknown = yield* answer("--question", "none", "1", "1")
      assert.deepStrictEqual([unknown.code, unknown.stdout], [5, ""])
      assert.include(unknown.stderr, `no such question waits in ${id}.`)
      const long = yield* answer("1", "t".repeat(10_001))
      assert.deepStrictEqual([long.code, long.stdout], [4, ""])
      assert.strictEqual((yield* answer("1", "1")).code, 0)
      const none = yield* answer("1", "1")
      assert.deepStrictEqual([none.code, none.stdout], [5, ""])
      assert.include(none.stderr, `no question waits in ${id}.`)
    }), LONG)
})
