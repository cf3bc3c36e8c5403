/** Questions of agents as they are stored and sent, and the answers of people as they are sent. */
import * as Schema from "effect/Schema"
import { text } from "../../text/Text.ts"
import { timestamp } from "../../time/Timestamp.ts"
import { MAX_ANSWER, MAX_LABEL, MAX_OPTIONS, MAX_QUESTIONS } from "./QuestionBounds.ts"

/** The id of a request, which the agent's driver chooses; 1 to 300 characters. */
export const QuestionId = text(1, 300)

/** An answer that the agent offers. */
export const QuestionOption = Schema.Struct({
  label: Schema.String.annotateKey({ description: "The answer, by which it is chosen." }),
  description: Schema.optionalKey(Schema.String).annotateKey({ description: "What choosing it means." })
})
export type QuestionOption = typeof QuestionOption.Type

/** One question of a request. */
export const Question = Schema.Struct({
  id: Schema.String.annotateKey({ description: "Id of the question within the request." }),
  text: Schema.String.annotateKey({ description: "The question." }),
  header: Schema.optionalKey(Schema.String).annotateKey({ description: "A title of a few words." }),
  options: Schema.Array(QuestionOption).annotateKey({ description: "The offered answers; empty: only a text answers it." }),
  multiple: Schema.Boolean.annotateKey({ description: "Whether several options may be chosen." }),
  allows_text: Schema.Boolean.annotateKey({ description: "Whether a text may answer it." })
})
export type Question = typeof Question.Type

/** An agent's request for answers. */
export const QuestionRequest = Schema.Struct({
  question_id: Schema.String.annotateKey({ description: "Id of the request." }),
  questions: Schema.Array(Question).annotateKey({ description: `1 to ${MAX_QUESTIONS} questions, which are answered together.` }),
  expires_at: timestamp("Time after which the agent goes on without an answer.")
})
export type QuestionRequest = typeof QuestionRequest.Type

/** `user`: a person answered or dismissed it; the others: no person did, and an answer is no longer possible. */
export const QuestionResolver = Schema.Literals(["user", "timeout", "interrupt", "terminate", "turn_end"])
export type QuestionResolver = typeof QuestionResolver.Type

/** A person's answer to one question: labels of options, a text, or both. */
export const Answer = Schema.Struct({
  labels: Schema.optionalKey(Schema.Array(text(1, MAX_LABEL)).check(Schema.isMinLength(1), Schema.isMaxLength(MAX_OPTIONS))).annotateKey({
    description: "Labels of chosen options: one, or several if the question is `multiple`."
  }),
  text: Schema.optionalKey(text(1, MAX_ANSWER)).annotateKey({
    description: "An answer in the person's own words, if the question allows it."
  })
}).check(Schema.makeFilter(({ labels, text }) => labels !== undefined || text !== undefined, {
  expected: "labels or a text",
  toJsonSchema: () => [{}, true]
}))
export type Answer = typeof Answer.Type

/** Answers by the id of their question. A question without an answer counts as not answered. */
export const Answers = Schema.Record(
  text(1, 300).check(Schema.makeFilter((key: string) => key !== "__proto__", {
    expected: "a key other than __proto__",
    toJsonSchema: () => [{}, true]
  })),
  Answer
).check(Schema.isMinProperties(1), Schema.isMaxProperties(MAX_QUESTIONS))
export type Answers = typeof Answers.Type

/** A person's reply to a request: answers, or `dismiss`. */
export const QuestionReply = Schema.Struct({
  answers: Schema.optionalKey(Answers).annotateKey({ description: "By the `id` of each question." }),
  dismiss: Schema.optionalKey(Schema.Literal(true)).annotateKey({ description: "The agent goes on without an answer." })
}).check(Schema.makeFilter(({ answers, dismiss }) => (answers === undefined) !== (dismiss === undefined), {
  expected: "either answers or dismiss",
  toJsonSchema: () => [{}, true]
}))
export type QuestionReply = typeof QuestionReply.Type

/** The state of a request. `by` is `null` while it is pending. `answers`: a person's; absent: there are none. */
export const QuestionState = Schema.Struct({
  questionId: Schema.String,
  by: Schema.NullOr(QuestionResolver),
  answers: Schema.optionalKey(Answers)
})
export type QuestionState = typeof QuestionState.Type
