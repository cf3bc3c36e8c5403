/** Questions that agents ask people (docs/decisions/22). The first answer is final, and no answer is given in a person's name. */
import { utf8Length } from "../../text/Utf8.ts"
import type { Answer, Answers, Question, QuestionReply, QuestionRequest, QuestionState } from "../schema/Question.ts"
import { MAX_LABEL, MAX_OPTIONS, MAX_QUESTIONS } from "../schema/QuestionBounds.ts"
import type { Sandbox } from "./Sandbox.ts"
import type { SandboxEventOf } from "./SandboxEvent.ts"

export type {
  Answer,
  Answers,
  Question,
  QuestionOption,
  QuestionReply,
  QuestionRequest,
  QuestionResolver,
  QuestionState
} from "../schema/Question.ts"

/** Characters of a question's text. A longer one is not asked: a person must see the whole question. */
const MAX_TEXT = 4000
const MAX_HEADER = 300
const MAX_DESCRIPTION = 2000
/** Bytes of a request's questions: they are in the row of the sandbox and in every snapshot. */
export const REQUEST_BYTES = 64 * 1024
/** Requests of one agent that wait at once. */
export const PENDING_QUESTIONS = 10

/** Pending requests of the sandbox, oldest first. */
export const questionsOf = ({ turn }: Pick<Sandbox, "turn">): ReadonlyArray<QuestionRequest> => turn?.questions ?? []

const isLong = (value: string | undefined, maximum: number) => value !== undefined && value.length > maximum
const isBlank = (value: string) => value.trim() === ""

const problemOf = ({ allows_text, header, id, options, text }: Question): string | null => {
  if (isBlank(id) || isLong(id, MAX_LABEL) || id === "__proto__" || isBlank(text)) return "A question has no text or no valid id."
  if (isLong(text, MAX_TEXT)) return `A question may have ${MAX_TEXT} characters.`
  if (options.length > MAX_OPTIONS) return `A question may have ${MAX_OPTIONS} options.`
  if (options.length === 0 && !allows_text) return "A question without options must allow a text."
  const labels = options.map(({ label }) => label)
  if (labels.some(isBlank) || new Set(labels).size < labels.length) return "The options of a question need different labels."
  if (
    isLong(header, MAX_HEADER) || options.some(({ description, label }) => isLong(label, MAX_LABEL) || isLong(description, MAX_DESCRIPTION))
  ) {
    return "A header or an option is too long."
  }
  return null
}

/** Why the agent may not ask this, as a sentence for it; `null`: it may. Nothing is cut: labels are what the agent gets back. */
export const refusalOf = (questions: ReadonlyArray<Question>): string | null => {
  if (questions.length === 0 || questions.length > MAX_QUESTIONS) return `A request may have 1 to ${MAX_QUESTIONS} questions.`
  if (new Set(questions.map(({ id }) => id)).size < questions.length) return "The questions of a request need different ids."
  const problem = questions.map(problemOf).find((one) => one !== null)
  if (problem !== undefined) return problem
  return utf8Length(JSON.stringify(questions)) > REQUEST_BYTES ? `The questions of a request may have ${REQUEST_BYTES} bytes.` : null
}

const answerProblem = (question: Question, { labels = [], text }: Answer): string | null => {
  const unknown = labels.find((label) => !question.options.some((option) => option.label === label))
  if (unknown !== undefined) return `The question ${question.id} has no option “${unknown}”.`
  if (text !== undefined && !question.allows_text) return `The question ${question.id} takes no text.`
  return !question.multiple && new Set(labels).size + (text === undefined ? 0 : 1) > 1
    ? `The question ${question.id} takes one answer.`
    : null
}

/** Why these are no answers to the request, as a sentence for the caller; `null`: they are. */
export const misfitOf = ({ questions }: Pick<QuestionRequest, "questions">, answers: Answers): string | null => {
  for (const [id, answer] of Object.entries(answers)) {
    const question = questions.find((one) => one.id === id)
    const problem = question === undefined ? `There is no question ${id}.` : answerProblem(question, answer)
    if (problem !== null) return problem
  }
  return null
}

/** The same text for equal replies, whatever the order of questions and labels. */
export const replyText = ({ answers }: Pick<QuestionReply, "answers">): string =>
  answers === undefined ? "dismiss" : JSON.stringify(
    Object.entries(answers)
      .map(([id, { labels = [], text = null }]) => [id, [...new Set(labels)].sort(), text] as const)
      .sort(([a], [b]) => a < b ? -1 : 1)
  )

/** The state of the request after the event. */
export const questionStateOf = ({ data, type }: SandboxEventOf<"question.asked" | "question.answered">): QuestionState => {
  if (type === "question.asked") return { questionId: data.question_id, by: null }
  const { answers, by, question_id: questionId } = data
  return { questionId, by, ...(answers === undefined ? {} : { answers }) }
}
