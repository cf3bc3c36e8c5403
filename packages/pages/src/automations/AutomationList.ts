/** `/automations`: the automations of the reader's grant, and the form for another one. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { Automation } from "@slipway/domain/automation/rules/Automation"
import { Automations, type WithSecret } from "@slipway/domain/automation/usecases/Automations"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Settings } from "@slipway/http/server/Settings"
import { triggerUrl } from "@slipway/http/server/TriggerUrl"
import { Effect, Result } from "effect"
import { columnHeads, html, type Html } from "../html/Html.ts"
import { shownOnce } from "../keys/ShownOnce.ts"
import * as Page from "../layout/Page.ts"
import * as AutomationForm from "./AutomationForm.ts"
import { nextOf, stateOf, triggerOf } from "./AutomationLabels.ts"

const MESSAGES = { removed: "Automation removed." }

const row = (automation: Automation): Html =>
  html`
<tr>
<th scope="row"><a href="/automations/${automation.id}">${visible(automation.settings.name)}</a></th>
<td data-label="Trigger">${triggerOf(automation.settings.trigger)}</td>
<td data-label="State">${stateOf(automation)}</td>
<td data-label="Next run">${nextOf(automation)}</td>
</tr>`

export const make = Effect.gen(function*() {
  const automations = yield* Automations
  const { publicUrl } = yield* Settings

  const page = Effect.fnUntraced(
    function*(member: Page.Member, told: Html | null, draft: AutomationForm.Draft, problem: string | null, status: number) {
      const found = yield* automations.list(member.visit.place.grantId)
      const table = html`<table class="rows"><caption class="unseen">Automations, oldest first</caption>
<thead><tr>${columnHeads("Name", "Trigger", "State", "Next run")}</tr></thead>
<tbody>${found.map(row)}
</tbody></table>`
      const body = html`<h1>Automations</h1>
${told}
<p>An automation creates a sandbox when its trigger fires: at a time, for a signed request, for a comment that mentions
<code>@slipway</code>, or for a label. Its sandboxes are created for the person who made it.</p>
${found.length === 0 ? html`<p>No automations yet.</p>` : table}
${AutomationForm.render({ action: "/automations", csrf: member.csrf, draft, isNew: true, problem })}`
      return Page.show({ title: "Automations", place: "automations", body }, member, { status })
    }
  )

  const made = (member: Page.Member, { automation: { id }, secret }: WithSecret) => {
    if (secret === null) return Page.redirect(`/automations/${id}?done=saved`)
    const more = html`<p>Sign each request to <code>${triggerUrl(publicUrl, id)}</code> with it, as Standard Webhooks say.</p>`
    const body = html`<h1>Automation created</h1>
${shownOnce({ label: "Secret", secret, then: `/automations/${id}`, more })}`
    return Page.show({ title: "Automation created", place: "automations", body }, member)
  }

  const show: Page.Handler<Page.Member> = (member, asked) => page(member, Page.told(asked, MESSAGES), AutomationForm.blank, null, 200)

  const create: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, { form }) {
    const draft = yield* AutomationForm.sentIn(form)
    const again = (problem: string, status: number) => page(member, null, draft, problem, status)
    const settings = AutomationForm.settingsOf(draft)
    if (Result.isFailure(settings)) return yield* again(`${settings.failure.message}.`, 400)
    return yield* automations.create(principalOf(member.visit), settings.success).pipe(
      Effect.map((found) => made(member, found)),
      Effect.catchTags({
        ApprovalsUnsupported: ({ message }) => again(message, 400),
        InvalidModel: ({ message }) => again(message, 400),
        InvalidReasoningEffort: ({ message }) => again(message, 400),
        InvalidRequest: ({ message }) => again(message, 400),
        RepoNotAccessible: ({ message }) => again(message, 400),
        TooManyAutomations: ({ message }) => again(message, 409)
      })
    )
  })

  return { show, create }
})
