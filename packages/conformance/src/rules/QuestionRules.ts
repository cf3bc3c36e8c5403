/** Questions of agents, and answers to them. Rules of servers whose agent knows the directive `ask`. */
import { answered, refused, type Reply } from "../client/Client.ts"
import { filled, fits, is, listOf, object, same, Skip, text, timestamp } from "../client/Expect.ts"
import { knows } from "../client/Names.ts"
import { derived } from "../world/Identity.ts"
import { type Box, UNKNOWN, type World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"
import { fresh } from "./StreamRules.ts"

const rule = rulesOf("commands", "docs/decisions/22")
const running = { needs: ["repo"] } as const

const option = object({ label: filled }, { optional: { description: text }, open: true })
const question = object({ id: filled, text: filled, options: listOf(option), multiple: is(true, false), allows_text: is(true, false) }, {
  optional: { header: text },
  open: true
})
/** The shape of a request for answers. */
export const questionRequest = object({ question_id: filled, questions: listOf(question), expires_at: timestamp }, { open: true })

const ANSWER = { answers: { 1: { labels: ["second"] } } }

/** A new turn whose agent waits for an answer. */
const pending = async (world: World) => {
  if (!knows(world.options.names, "ask")) throw new Skip("the server's agent asks no questions")
  const box = await world.resting()
  const turn = await box.say("Conformance: a question. [[ask Which one? | first | second]] [[say after]]")
  const asked = await box.until(({ turnId, type }) => turnId === turn && type === "question.asked", 0, "question.asked")
  return { box, turn, asked, id: asked.data.at("question_id").string }
}

const send = (world: World, box: Box, id: string, body: unknown) => world.post(box, `/questions/${encodeURIComponent(id)}`, body)

const outcome = (reply: Reply, wanted: string, to: string) => {
  const { json } = answered(reply, 200, to)
  const rejection = json.at("rejection").value
  same([json.at("outcome").value, ...(rejection === undefined ? [] : [rejection])].join(" "), wanted, `outcome of ${to}`)
  return { commandId: json.at("commandId").value, revision: json.at("revision").value }
}

const ended = async (world: World, box: Box, turn: string) => {
  await box.turnEnd(turn)
  const log = (await world.readLog(box)).filter(({ turnId }) => turnId === turn)
  return { log, over: log.filter(({ type }) => type === "question.answered").map(({ data }) => data.value) }
}

/** The rules of this file. */
export const rules = [
  rule(
    "question",
    "A question is question.asked, the turn waits as awaiting_answer and active, and the snapshot has it.",
    async (world) => {
      const { asked, box, id, turn } = await pending(world)
      fits(asked.data.value, questionRequest, "")
      same(answered(await world.get(box, ""), 200, "the sandbox").json.at("turn").at("active").value, true, "turn.active")
      const [, snapshot] = (await fresh(world, box)).blocks
      same(snapshot?.data?.at("data").at("pending_questions").value, [asked.data.value], "pending_questions")
      same(snapshot?.data?.at("data").at("turn").at("state").value, "awaiting_answer", "state of the turn")
      outcome(await send(world, box, id, { dismiss: true }), "applied", "a dismissal")
      await box.turnEnd(turn)
    },
    running
  ),
  rule("answer", "The first answer wins: the same again is a duplicate, another is question_already_answered.", async (world) => {
    const { box, id, turn } = await pending(world)
    const first = outcome(await send(world, box, id, ANSWER), "applied", "an answer")
    same(first.commandId, derived(`${box.id}/question/${id}/[["1",["second"],null]]`), "commandId")
    same(outcome(await send(world, box, id, ANSWER), "duplicate", "the same answer"), first, "commandId and revision")
    for (const other of [{ answers: { 1: { labels: ["first"] } } }, { answers: { 1: { text: "neither" } } }, { dismiss: true }]) {
      outcome(await send(world, box, id, other), "rejected question_already_answered", JSON.stringify(other))
    }
    const { log, over } = await ended(world, box, turn)
    same(over, [{ question_id: id, by: "user", ...ANSWER }], "question.answered")
    const said = log.filter(({ type }) => type === "message.updated").map(({ data }) => data.at("text").string).join("\n")
    same([said.includes("second"), said.includes("first")], [true, false], "whether the agent has the answer, and no other")
  }, running),
  rule("answer-concurrent", "Of answers at the same time exactly one is applied.", async (world) => {
    const { box, id, turn } = await pending(world)
    const replies = await Promise.all(["a", "b", "c"].map((text) => send(world, box, id, { answers: { 1: { text } } })))
    const outcomes = replies.map((reply) => answered(reply, 200, "an answer").json.at("outcome").value)
    same(outcomes.sort(), ["applied", "rejected", "rejected"], "outcomes")
    const { over } = await ended(world, box, turn)
    same(over.length, 1, "number of question.answered")
  }, running),
  rule("dismiss", "A dismissal has no answers, and the agent goes on.", async (world) => {
    const { box, id, turn } = await pending(world)
    outcome(await send(world, box, id, { dismiss: true }), "applied", "a dismissal")
    outcome(await send(world, box, id, ANSWER), "rejected question_already_answered", "an answer")
    const { log, over } = await ended(world, box, turn)
    same(over, [{ question_id: id, by: "user" }], "question.answered")
    same(log.at(-1)?.data.at("state").value, "succeeded", "state of the turn")
  }, running),
  rule("interrupt-question", "An interrupt ends a question without an answer.", async (world) => {
    const { box, id, turn } = await pending(world)
    await world.post(box, "/interrupt")
    outcome(await send(world, box, id, ANSWER), "rejected question_already_answered", "an answer")
    const { over } = await ended(world, box, turn)
    same(over, [{ question_id: id, by: "interrupt" }], "question.answered")
  }, running),
  rule("answer-misfit", "An answer that does not fit the question is 400 invalid_answer, and the question waits on.", async (world) => {
    const { box, id, turn } = await pending(world)
    const misfits = [{ 2: { text: "a" } }, { 1: { labels: ["third"] } }, { 1: { labels: ["first", "second"] } }, {
      1: { labels: ["first"], text: "a" }
    }]
    for (const answers of misfits) refused(await send(world, box, id, { answers }), 400, "invalid_answer", JSON.stringify(answers))
    outcome(await send(world, box, id, ANSWER), "applied", "an answer")
    await box.turnEnd(turn)
  }, running),
  rule("question-unknown", "An answer to a question that was never asked is 404 not_found.", async (world) => {
    const box = await world.resting()
    refused(await send(world, box, "never-asked", ANSWER), 404, "not_found", "an unknown question")
    refused(await world.http.ask(`${UNKNOWN}/questions/a`, { body: ANSWER }), 404, "not_found", "an unknown sandbox")
  }, running),
  rule("answer-body", "An answer takes exactly one of answers and dismiss, within their bounds.", async (world) => {
    const bad: ReadonlyArray<unknown> = [
      {},
      { dismiss: false },
      { ...ANSWER, dismiss: true },
      { ...ANSWER, by: "user" },
      { answers: {} },
      { answers: [] },
      { answers: { 1: {} } },
      { answers: { 1: { labels: [] } } },
      { answers: { 1: { labels: ["a"], other: 1 } } },
      { answers: { 1: { text: "" } } },
      { answers: { 1: { text: "t".repeat(10_001) } } },
      { answers: Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`q${i}`, { text: "t" }])) }
    ]
    for (const body of bad) {
      refused(await world.http.ask(`${UNKNOWN}/questions/a`, { body }), 400, "invalid_request", JSON.stringify(body).slice(0, 90))
    }
    for (const body of [{ dismiss: true }, { answers: { 1: { text: "t".repeat(10_000) } } }]) {
      refused(await world.http.ask(`${UNKNOWN}/questions/a`, { body }), 404, "not_found", "a body that is valid")
    }
  }),
  rule("question-id", "A question id has 1 to 300 characters.", async (world) => {
    const path = (characters: number) => `${UNKNOWN}/questions/${encodeURIComponent("\u{1f600}".repeat(characters))}`
    refused(await world.http.ask(path(300), { body: ANSWER }), 404, "not_found", "a question id of 300 characters")
    refused(await world.http.ask(path(301), { body: ANSWER }), 400, "invalid_request", "a question id of 301 characters")
  })
]
