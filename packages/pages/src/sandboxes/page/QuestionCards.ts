/** The questions of an agent on pages: their forms, and what a person's form answers. They work without a script. */
import { type Question, type QuestionReply, type QuestionRequest, questionsOf } from "@slipway/domain/sandbox/rules/Question"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { MAX_ANSWER } from "@slipway/domain/sandbox/schema/QuestionBounds"
import { DateTime } from "effect"
import { type Budget, fit } from "../../html/Fit.ts"
import { html, type Html, type Later } from "../../html/Html.ts"
import type { Form } from "../../layout/Form.ts"

/** Bytes of the questions on one page. */
const QUESTIONS_BYTES = 160 * 1024

const addressOf = ({ id }: Sandbox, { question_id }: QuestionRequest): string =>
  `/sandboxes/${id}/questions/${encodeURIComponent(question_id)}`

/** `name`: unique on the page. */
const fields = ({ allows_text, header, id, multiple, options, text }: Question, name: string): Html => {
  const type = multiple ? "checkbox" : "radio"
  const choices = options.map(({ description, label }, index) =>
    html`<label class="choice" for="${name}-${index}"><input type="${type}" id="${name}-${index}" name="labels:${id}" value="${label}">
<span>${label}${description !== undefined && html` <span class="fine">${description}</span>`}</span></label>
`
  )
  const label = options.length === 0 ? "Your answer" : multiple ? "Also, in your own words" : "Or in your own words"
  const own = allows_text && html`<label for="${name}-text">${label}</label>
<textarea id="${name}-text" name="text:${id}" rows="2" maxlength="${MAX_ANSWER}"></textarea>`
  return html`<fieldset><legend>${header !== undefined && html`<strong>${header}</strong> `}${text}</legend>
${choices}${own}</fieldset>
`
}

/** One request for answers, with the form that answers or dismisses it. */
export const questionCard = (sandbox: Sandbox, request: QuestionRequest, csrf: Html): Html => {
  const { expires_at, question_id, questions } = request
  const iso = DateTime.formatIso(expires_at)
  const name = `question-${encodeURIComponent(question_id)}`
  const asks = questions.length === 1 ? "The agent asks" : `The agent asks ${questions.length} questions`
  return html`<li class="approval question" id="${name}" tabindex="-1">
<form method="post" action="${addressOf(sandbox, request)}" data-live>${csrf}
<p class="asks"><span class="state wait">${asks}</span>
<span class="fine">Expires <time datetime="${iso}">at ${iso.slice(11, 16)} UTC</time>, then the agent goes on without an answer</span></p>
<div class="asked">
${questions.map((question, index) => fields(question, `${name}-${index}`))}
</div>
<div class="actions"><button name="reply" value="answer">Answer</button>
<button name="reply" value="dismiss" class="quiet">Dismiss<span class="unseen"> without an answer</span></button></div>
</form>
</li>
`
}

const elsewhere = (sandbox: Sandbox, request: QuestionRequest): Html =>
  html`<li class="approval question">
<p>${(request.questions[0]?.text ?? "").slice(0, 300).toWellFormed()}</p>
<p><a href="${addressOf(sandbox, request)}">Answer…</a></p>
</li>
`

/** A request that does not fit on the page, and those after it, have pages of their own. */
export const questionCards = (sandbox: Sandbox, csrf: Html): Later => {
  const requests = questionsOf(sandbox)
  const budget: Budget = { bytes: QUESTIONS_BYTES }
  return fit(requests, budget, (request) => questionCard(sandbox, request, csrf), (cards) => {
    const others = requests.slice(cards.length).map((request) => elsewhere(sandbox, request))
    return html`<ul class="approvals">${cards}${others}</ul>`
  })
}

const clean = (text: string | undefined): string => (text ?? "").replaceAll("\r\n", "\n").trim()

/** The answers of a form to these questions; `null`: it has none. To a question with one answer, a text wins over an option. */
export const replyOf = (form: Form, questions: ReadonlyArray<Question>): QuestionReply | null => {
  const answers = questions.flatMap(({ id, multiple }) => {
    const labels = form.all(`labels:${id}`)
    const text = clean(form.all(`text:${id}`)[0])
    const chosen = multiple || text === "" ? labels : []
    return chosen.length === 0 && text === ""
      ? []
      : [[id, { ...(chosen.length === 0 ? {} : { labels: chosen }), ...(text === "" ? {} : { text }) }] as const]
  })
  return answers.length === 0 ? null : { answers: Object.fromEntries(answers) }
}
