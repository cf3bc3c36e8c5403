/** Approvals and questions of a sandbox as requests to the editor, and the editor's answers as decisions. */
import type { CreateElicitationRequest, ElicitationPropertySchema, PermissionOption } from "@agentclientprotocol/sdk"
import type { ApprovalDecision, ApprovalRequest, Question, QuestionAnswer, QuestionReply, QuestionRequest } from "@slipway/client"
import { coveredKind } from "@slipway/domain/sandbox/rules/Approval"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { line } from "../terminal/EventText.ts"

/** The option of a denial with a reason, which a form asks for. */
export const DENY_WITH_REASON = "deny_with_reason"
/** Characters of the reason of a denial. */
const MAX_REASON = 2000
/** Characters of an answer. */
const MAX_ANSWER = 10_000

/** The choices of the API. `canAskWhy`: the editor shows forms. */
export const optionsOf = (request: ApprovalRequest, canAskWhy: boolean): Array<PermissionOption> => [
  { optionId: "approve", name: "Approve", kind: "allow_once" },
  ...(coveredKind(request) === null
    ? []
    : [{ optionId: "approve_turn", name: "Approve all of this kind in this turn", kind: "allow_always" as const }]),
  { optionId: "deny", name: "Deny", kind: "reject_once" },
  ...(canAskWhy ? [{ optionId: DENY_WITH_REASON, name: "Deny, and say why", kind: "reject_once" as const }] : [])
]

/** `null`: an option that was not offered. */
export const decisionOf = (optionId: string, reason?: string): ApprovalDecision | null => {
  switch (optionId) {
    case "approve":
      return { decision: "approve" }
    case "approve_turn":
      return { decision: "approve", scope: "turn" }
    case "deny":
    case DENY_WITH_REASON:
      return { decision: "deny", ...(reason === undefined || reason === "" ? {} : { reason }) }
    default:
      return null
  }
}

/** The form for the reason of a denial. */
export const reasonForm = (sessionId: string, toolCallId: string): CreateElicitationRequest => ({
  mode: "form",
  sessionId,
  toolCallId,
  message: "Why is it denied? The agent gets the reason.",
  requestedSchema: { type: "object", properties: { reason: { type: "string", title: "Reason", maxLength: MAX_REASON } } }
})

type Content = Readonly<Record<string, unknown>>

/** The reason of the filled form. */
export const reasonIn = (content: Content): string | undefined => {
  const { reason } = content
  return typeof reason === "string" ? reason.trim().slice(0, MAX_REASON).toWellFormed() : undefined
}

/** Ids of questions are an agent's, so the fields of a form have names of their own. */
const choiceField = (index: number) => `question_${index + 1}`
const textField = (index: number) => `question_${index + 1}_text`

const fieldsOf = (
  { allows_text, header, multiple, options, text }: Question,
  index: number
): Array<[string, ElicitationPropertySchema]> => {
  const title = header === undefined ? visible(text) : line(header)
  const description = visible(text)
  const choices = options.map(({ description, label }) => ({
    const: label,
    title: line(label),
    ...(description === undefined ? {} : { description: line(description) })
  }))
  const written: [string, ElicitationPropertySchema] = [textField(index), {
    type: "string",
    title: options.length === 0 ? title : `${title}: in other words`,
    ...(options.length === 0 ? { description } : {}),
    maxLength: MAX_ANSWER
  }]
  if (options.length === 0) return [written]
  const chosen: [string, ElicitationPropertySchema] = [
    choiceField(index),
    multiple
      ? { type: "array", title, description, items: { anyOf: choices } }
      : { type: "string", title, description, oneOf: choices }
  ]
  return allows_text ? [chosen, written] : [chosen]
}

/** The form for a request. No field is required: a question without an answer counts as not answered. */
export const formOf = (sessionId: string, { questions }: QuestionRequest): CreateElicitationRequest => ({
  mode: "form",
  sessionId,
  message: questions.map(({ text }) => visible(text)).join("\n"),
  requestedSchema: { type: "object", properties: Object.fromEntries(questions.flatMap(fieldsOf)) }
})

const answerIn = ({ multiple, options }: Question, index: number, content: Content): QuestionAnswer | null => {
  const chosen = content[choiceField(index)]
  const written = content[textField(index)]
  const given = (multiple ? Array.isArray(chosen) ? chosen : [] : [chosen]).filter((one): one is string => typeof one === "string")
  const labels = given.filter((one) => options.some(({ label }) => label === one))
  const text = typeof written === "string" ? written.trim().slice(0, MAX_ANSWER).toWellFormed() : ""
  if (labels.length === 0 && text === "") return null
  // A question with one answer takes one of both; a person who wrote own words means these.
  if (!multiple && text !== "") return { text }
  return { ...(labels.length === 0 ? {} : { labels }), ...(text === "" ? {} : { text }) }
}

/** The answers of the filled form. A form without any answer dismisses the request. */
export const replyOf = ({ questions }: QuestionRequest, content: Content): QuestionReply => {
  const answers = Object.fromEntries(questions.flatMap((question, index) => {
    const answer = answerIn(question, index, content)
    return answer === null ? [] : [[question.id, answer]]
  }))
  return Object.keys(answers).length === 0 ? { dismiss: true } : { answers }
}

const DISMISS = "dismiss"
/** Options that an editor shows as buttons. */
const MAX_BUTTONS = 8

/** A request with one choice as buttons, for editors without forms; `null`: it needs more than one choice. */
export const choicesOf = ({ questions: [question, ...others] }: QuestionRequest): Array<PermissionOption> | null => {
  if (question === undefined || others.length > 0 || question.multiple) return null
  if (question.options.length === 0 || question.options.length > MAX_BUTTONS) return null
  return [
    ...question.options.map(({ label }, index) => ({ optionId: `option_${index + 1}`, name: line(label), kind: "allow_once" as const })),
    { optionId: DISMISS, name: "Go on without an answer", kind: "reject_once" }
  ]
}

/** The reply for a button of {@link choicesOf}; `null`: there is no such button. */
export const choiceOf = ({ questions: [question] }: QuestionRequest, optionId: string): QuestionReply | null => {
  if (optionId === DISMISS) return { dismiss: true }
  const label = question?.options[Number(/^option_(\d+)$/u.exec(optionId)?.[1]) - 1]?.label
  return question === undefined || label === undefined ? null : { answers: { [question.id]: { labels: [label] } } }
}
