/** The form of an automation's settings: what it shows, and the settings that it sends. */
import { AutomationSettings, type Trigger } from "@slipway/domain/automation/schema/Automation"
import { MAX_TEMPLATE, PLACEHOLDERS, type TriggerKind } from "@slipway/domain/automation/schema/Template"
import { ReasoningEffort } from "@slipway/domain/models/schema/ReasoningEffort"
import { type InvalidRequest, reader } from "@slipway/domain/text/InvalidRequest"
import { Effect, type Result } from "effect"
import { html, type Html } from "../html/Html.ts"
import type { Form } from "../layout/Form.ts"
import type { Refused } from "../layout/Refused.ts"

/** The fields as a person filled them in. */
export interface Draft {
  readonly name: string
  readonly trigger: string
  readonly cron: string
  readonly timeZone: string
  readonly label: string
  readonly repos: string
  readonly prompt: string
  readonly model: string
  readonly effort: string
  readonly comments: string
  readonly checks: string
  readonly approvals: string
  readonly maxRunning: string
  readonly maxPerDay: string
}

export const blank: Draft = {
  name: "",
  trigger: "schedule",
  cron: "0 7 * * 1-5",
  timeZone: "UTC",
  label: "slipway",
  repos: "",
  prompt: "",
  model: "",
  effort: "",
  comments: "",
  checks: "",
  approvals: "auto",
  maxRunning: "1",
  maxPerDay: "20"
}

/** The fields of an automation that exists. */
export const draftOf = (settings: AutomationSettings): Draft => {
  const { feedback, maxPerDay, maxRunning, model = "", name, prompt, reasoningEffort = "", repos, toolApprovalMode, trigger } = settings
  return {
    ...blank,
    name,
    trigger: trigger.type,
    ...(trigger.type === "schedule" ? { cron: trigger.cron, timeZone: trigger.timeZone } : {}),
    ...(trigger.type === "label" ? { label: trigger.label } : {}),
    repos: repos.map(({ fullName, ref }) => ref === undefined ? fullName : `${fullName}@${ref}`).join("\n"),
    prompt,
    model,
    effort: reasoningEffort,
    comments: feedback?.comments ?? "",
    checks: feedback?.checks ?? "",
    approvals: toolApprovalMode,
    maxRunning: String(maxRunning),
    maxPerDay: String(maxPerDay)
  }
}

/** The fields of a sent form. Browsers send line breaks as CRLF. */
export const sentIn = (form: Form): Effect.Effect<Draft, Refused> =>
  Effect.map(
    Effect.all({
      name: form.one("name"),
      trigger: form.one("trigger"),
      cron: form.one("cron"),
      timeZone: form.one("timeZone"),
      label: form.one("label"),
      repos: form.one("repos"),
      prompt: form.one("prompt"),
      model: form.one("model"),
      effort: Effect.map(form.maybe("effort"), (value) => value ?? ""),
      comments: Effect.map(form.maybe("comments"), (value) => value ?? ""),
      checks: Effect.map(form.maybe("checks"), (value) => value ?? ""),
      approvals: form.one("approvals"),
      maxRunning: form.one("maxRunning"),
      maxPerDay: form.one("maxPerDay")
    }),
    (draft) => ({ ...draft, prompt: draft.prompt.replaceAll("\r\n", "\n") })
  )

const read = reader(AutomationSettings, "form")

const triggerOf = ({ cron, label, timeZone, trigger }: Draft): object =>
  trigger === "schedule" ? { type: trigger, cron: cron.trim(), timeZone: timeZone.trim() } : trigger === "label"
    ? { type: trigger, label: label.trim() }
    : { type: trigger }

const numberOf = (text: string): number => /^\d{1,4}$/u.test(text.trim()) ? Number(text) : Number.NaN

const repoOf = (line: string) => {
  const [fullName = "", ...ref] = line.split("@")
  return ref.length === 0 ? { fullName } : { fullName, ref: ref.join("@") }
}

/** The feedback of the fields. The form has no fields for the others: `known` keeps them. */
const feedbackOf = ({ checks, comments }: Draft, known: AutomationSettings["feedback"]): object => {
  const { checks: _checks, comments: _comments, ...more } = known ?? {}
  return { ...more, ...(comments === "" ? {} : { comments }), ...(checks === "" ? {} : { checks }) }
}

/** The settings of the fields, or the first fault. `known`: the feedback of an automation that exists. */
export const settingsOf = (draft: Draft, known?: AutomationSettings["feedback"]): Result.Result<AutomationSettings, InvalidRequest> => {
  const feedback = feedbackOf(draft, known)
  return read({
    name: draft.name.trim(),
    trigger: triggerOf(draft),
    repos: draft.repos.split(/\s+/u).filter((line) => line !== "").map(repoOf),
    prompt: draft.prompt,
    ...(draft.model.trim() === "" ? {} : { model: draft.model.trim() }),
    ...(draft.effort === "" ? {} : { reasoningEffort: draft.effort }),
    ...(Object.keys(feedback).length === 0 ? {} : { feedback }),
    toolApprovalMode: draft.approvals,
    maxRunning: numberOf(draft.maxRunning),
    maxPerDay: numberOf(draft.maxPerDay)
  })
}

const KINDS: Record<Trigger["type"], string> = {
  schedule: "Schedule",
  webhook: "Signed request",
  mention: "Comment that mentions @slipway",
  label: "Label"
}

const placeholders = (kind: TriggerKind): Html =>
  html`${PLACEHOLDERS[kind].map((name, i) => html`${i > 0 && ", "}<code>{{${name}}}</code>`)}`

const field = (id: keyof Draft, label: string, value: string, hint: Html | false, more: Html): Html =>
  html`<div class="field">
<label for="${id}">${label}</label>
<input id="${id}" name="${id}" value="${value}" autocomplete="off"${more}${hint !== false && html` aria-describedby="${id}-hint"`}>
${hint !== false && html`<p class="hint" id="${id}-hint">${hint}</p>`}
</div>
`

const hiddenField = (name: keyof Draft, value: string): Html =>
  html`<input type="hidden" name="${name}" value="${value}">
`

/** The kind of a trigger that exists stays, so it is a hidden field. */
const kindField = (draft: Draft, isNew: boolean): Html => {
  if (!isNew) return hiddenField("trigger", draft.trigger)
  const options = Object.entries(KINDS).map(([kind, name]) =>
    html`<option value="${kind}"${kind === draft.trigger && html` selected`}>${name}</option>`
  )
  return html`<div class="field">
<label for="trigger">Starts by</label>
<select id="trigger" name="trigger">${options}</select>
</div>
`
}

const scheduleFields = ({ cron, timeZone }: Draft): Html => {
  const times = html`Minute, hour, day of month, month, day of week: <code>0 7 * * 1-5</code> is at 7:00 on weekdays.`
  const zone = html`Such as <code>Europe/Berlin</code>.`
  const plain = html` spellcheck="false"`
  return html`${field("cron", "Times of a schedule", cron, times, plain)}
${field("timeZone", "Time zone of a schedule", timeZone, zone, plain)}`
}

/** The fields of one kind of trigger. Of a new automation all are shown, because the page works without a script. */
const triggerFields = (draft: Draft, isNew: boolean): Html => {
  const schedule = isNew || draft.trigger === "schedule"
    ? scheduleFields(draft)
    : html`${hiddenField("cron", draft.cron)}${hiddenField("timeZone", draft.timeZone)}`
  const label = isNew || draft.trigger === "label"
    ? field("label", "Label that starts it", draft.label, false, html` maxlength="50"`)
    : hiddenField("label", draft.label)
  return html`${schedule}${label}`
}

/** Numbers that limit an automation. */
const limitFields = ({ maxPerDay, maxRunning }: Draft): Html => {
  const more = html` required inputmode="numeric"`
  const running = html`1 to 20. More events are skipped.`
  const daily = html`1 to 200. More events are skipped.`
  return html`${field("maxRunning", "Active sandboxes at once", maxRunning, running, more)}
${field("maxPerDay", "Runs in 24 hours", maxPerDay, daily, more)}`
}

const EFFORTS: Readonly<Record<string, string>> = Object.fromEntries(ReasoningEffort.literals.map((effort) => [effort, effort]))

const AS_THE_REPOSITORY = "as the repository's settings say"

const COMMENTS = { "": AS_THE_REPOSITORY, off: "do nothing", mention: "with @slipway become work", all: "become work" }

const CHECKS = { "": AS_THE_REPOSITORY, off: "do nothing", failing: "become work" }

/** `options`: the words of each value, in order. */
const select = (id: keyof Draft, label: string, value: string, options: Readonly<Record<string, string>>): Html => {
  const items = Object.entries(options).map(([one, words]) =>
    html`<option value="${one}"${one === value && html` selected`}>${words}</option>`
  )
  return html`<div class="field">
<label for="${id}">${label}</label>
<select id="${id}" name="${id}">${items}</select>
</div>
`
}

/** The form. `problem`: why it was refused. */
export const render = (
  { action, csrf, draft, isNew, problem }: {
    readonly action: string
    readonly csrf: Html
    readonly draft: Draft
    readonly isNew: boolean
    readonly problem: string | null
  }
): Html =>
  html`<form method="post" action="${action}" class="panel" aria-labelledby="form">
<h2 id="form">${isNew ? "New automation" : "Settings"}</h2>
${csrf}
${problem !== null && html`<p class="problem" role="alert" id="problem">${problem}</p>`}
${field("name", "Name", draft.name, false, html` required maxlength="120"`)}
${kindField(draft, isNew)}
${triggerFields(draft, isNew)}
<div class="field">
<label for="repos">Repositories</label>
<textarea id="repos" name="repos" required rows="2" spellcheck="false" autocapitalize="none"
aria-describedby="repos-hint">${draft.repos}</textarea>
<p class="hint" id="repos-hint">One a line: <code>owner/name</code>, or <code>owner/name@branch</code>.</p>
</div>
<div class="field">
<label for="prompt">Task</label>
<textarea id="prompt" name="prompt" required rows="6" maxlength="${MAX_TEMPLATE}" aria-describedby="prompt-hint">${draft.prompt}</textarea>
<p class="hint" id="prompt-hint">Values of the event are inserted as data. Schedule: ${placeholders("schedule")}. Signed request: also
<code>{{payload.alert.title}}</code>, by the path in its JSON. Mention: ${placeholders("mention")}. Label: ${placeholders("label")}.</p>
</div>
${field("model", "Model", draft.model, html`Empty: the default.`, html` spellcheck="false"`)}
${select("effort", "Effort", draft.effort, { "": "the model's default", ...EFFORTS })}
${select("approvals", "Edits and commands", draft.approvals, { auto: "never ask", prompt: "ask before each" })}
${select("comments", "Comments on its pull requests", draft.comments, COMMENTS)}
${select("checks", "Failing checks of its pull requests", draft.checks, CHECKS)}
${limitFields(draft)}
<button>${isNew ? "Create automation" : "Save"}</button>
</form>`
