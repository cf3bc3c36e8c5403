/** `slipway answer`: answers or dismisses a question of the agent. */
import type { QuestionAnswer, QuestionReply, QuestionRequest } from "@slipway/client"
import { Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as EventText from "../terminal/EventText.ts"
import { json, print } from "../terminal/Output.ts"
import { read } from "../terminal/TypedAnswer.ts"
import * as Server from "./server/Server.ts"

const { CommandFailed, ExitCode } = Server

const unclear = (detail: string) => new CommandFailed({ detail, exitCode: ExitCode.unclear })

/** The questions as plain text, for a message. */
const described = (request: QuestionRequest) => EventText.questions((_, text) => text, request).trimEnd()

/** The request to answer. Without an id, there must be exactly one. */
const meant = Effect.fnUntraced(function*(id: string, named: Option.Option<string>, pending: ReadonlyArray<QuestionRequest>) {
  const [first, ...others] = pending
  const found = Option.match(named, { onNone: () => first, onSome: (name) => pending.find(({ question_id }) => question_id === name) })
  if (found === undefined) {
    const which = Option.match(named, { onNone: () => "no question", onSome: () => "no such question" })
    return yield* new CommandFailed({ detail: `${which} waits in ${id}.`, exitCode: ExitCode.notFound })
  }
  if (Option.isSome(named)) return found
  if (others.length > 0) {
    const list = pending.map((one) => `${one.question_id}:\n${described(one)}`).join("\n")
    return yield* unclear(`several questions wait: name one with --question.\n${list}`)
  }
  return found
})

/** The answers in the order of the questions. */
const replyTo = Effect.fnUntraced(function*({ questions, ...request }: QuestionRequest, typed: ReadonlyArray<string>) {
  if (typed.length !== questions.length) {
    const needed = questions.length === 1 ? "one answer" : `${questions.length} answers, one for each question in order; - leaves one out`
    return yield* unclear(`give ${needed}, or --dismiss:\n${described({ questions, ...request })}`)
  }
  const answers: Record<string, QuestionAnswer> = {}
  for (const [index, question] of questions.entries()) {
    const found = read(question, typed[index] ?? "")
    if ("problem" in found) return yield* unclear(found.problem === "" ? "an answer is empty." : found.problem)
    if ("answer" in found) answers[question.id] = found.answer
  }
  return Object.keys(answers).length === 0 ? { dismiss: true } satisfies QuestionReply : { answers } satisfies QuestionReply
})

export const answer = Command.make("answer", {
  id: Server.id,
  answers: Argument.String("answer").pipe(
    Argument.withDescription("For each question: numbers or labels of its options, or your own words"),
    Argument.variadic()
  ),
  question: Flag.String("question").pipe(Flag.withDescription("Question id; optional if only one waits"), Flag.optional),
  dismiss: Flag.Boolean("dismiss").pipe(Flag.withDescription("Let the agent go on without an answer"), Flag.withDefault(false)),
  json,
  url: Server.url
}, ({ answers, dismiss, id: given, json, question, url }) =>
  Server.interruptible(Effect.gen(function*() {
    if (dismiss && answers.length > 0) return yield* unclear("--dismiss goes without answers.")
    const server = yield* Server.connect(url)
    const id = yield* Server.sandboxOf(server, given)
    const { pending_questions: pending } = yield* server.call((signal) => server.client.snapshot(id, { signal }))
    const request = yield* meant(id, question, pending)
    const questionId = request.question_id
    const reply: QuestionReply = dismiss ? { dismiss: true } : yield* replyTo(request, answers)
    const replied = server.call((signal) => server.client.answerQuestion(id, questionId, reply, { signal }))
    const result = yield* Effect.flatMap(replied, (result) => Server.applied(result))
    yield* print(json, { questionId, ...reply, ...result }, () =>
      `${result.outcome === "duplicate" ? "Already " : ""}${reply.dismiss === true ? "dismissed" : "answered"}.`)
  }))).pipe(
    Command.withDescription(
      `Answer a question of the agent, or dismiss it. The first answer wins. slipway logs shows the question.\n\n${Server.exitCodesText}`
    ),
    Command.withExamples([
      { command: "slipway answer c_abcdefgh2345 2", description: "The second option of the only question" },
      { command: `slipway answer c_abcdefgh2345 Postgres "Only the tests of the shop"`, description: "Two questions of one request" },
      { command: "slipway answer c_abcdefgh2345 --dismiss", description: "Without an answer" }
    ])
  )
