/** Labels for the triggers, states and runs of automations. */
import { type Automation, PAUSED_AFTER } from "@slipway/domain/automation/rules/Automation"
import type { Outcome, PauseReason, Trigger } from "@slipway/domain/automation/schema/Automation"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { html, type Html } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"

const reasons: Record<PauseReason, string> = {
  paused: "",
  failures: `${PAUSED_AFTER} runs in a row could not start.`
}

const limits = { day: "The limit of a day is reached.", running: "Too many of its sandboxes are active." }

export const triggerOf = (trigger: Trigger): Html => {
  switch (trigger.type) {
    case "schedule":
      return html`<code>${trigger.cron}</code> ${trigger.timeZone}`
    case "webhook":
      return html`signed request`
    case "mention":
      return html`comment with <code>@slipway</code>`
    case "label":
      return html`label <strong>${visible(trigger.label)}</strong>`
  }
}

export const stateOf = ({ paused }: Automation): Html => {
  if (paused === null) return html`<span class="state good">enabled</span>`
  const kind = paused.reason === "failures" ? "bad" : "wait"
  return html`<span class="state ${kind}">paused</span> since ${moment(paused.at)}. ${reasons[paused.reason]}`
}

export const nextOf = ({ dueAt, paused }: Automation): Html => paused === null && dueAt !== null ? moment(dueAt) : html`–`

/** The kind of event in the id of a run's trigger: the part before the slash. */
const triggers: Readonly<Record<string, string>> = {
  schedule: "schedule",
  webhook: "signed request",
  comment: "mention",
  label: "label",
  manual: "a person"
}
export const startedBy = (triggerId: string): string => triggers[triggerId.slice(0, triggerId.indexOf("/"))] ?? "event"

export const outcomeOf = (outcome: Outcome): Html => {
  switch (outcome.type) {
    case "starting":
      return html`<span class="state wait">starting</span>`
    case "started":
      return html`<span class="state good">started</span> <a href="/sandboxes/${outcome.sandboxId}">${outcome.sandboxId}</a>`
    case "refused":
      return html`<span class="state bad">not started</span> ${visible(outcome.message)}`
    case "skipped":
      return html`<span class="state wait">skipped</span> ${limits[outcome.limit]}`
  }
}
