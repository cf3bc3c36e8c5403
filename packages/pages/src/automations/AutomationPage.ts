/** `/automations/:automationId`: an automation's state, its runs, and its forms. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import { type Automation, type Run, RUN_RETENTION } from "@slipway/domain/automation/rules/Automation"
import { Automations } from "@slipway/domain/automation/usecases/Automations"
import { SIGNS_ALONG } from "@slipway/domain/partner/rules/Webhook"
import { AnyUuid } from "@slipway/domain/partner/schema/Attribution"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Counter } from "@slipway/domain/text/Text"
import { Settings } from "@slipway/http/server/Settings"
import { triggerUrl } from "@slipway/http/server/TriggerUrl"
import { Duration, Effect, Result, Schema } from "effect"
import { columnHeads, html, type Html } from "../html/Html.ts"
import { exactMoment, moment } from "../html/Moments.ts"
import { shownOnce } from "../keys/ShownOnce.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import * as AutomationForm from "./AutomationForm.ts"
import { nextOf, outcomeOf, startedBy, stateOf, triggerOf } from "./AutomationLabels.ts"

type Handler = Page.Handler<Page.Member>

/** Runs of one page. */
const PAGE = 25

const MESSAGES = {
  saved: "Automation saved.",
  enabled: "Automation enabled.",
  paused: "Automation paused.",
  started: "Run started.",
  "not-started": "The run did not start: see below."
}

const decodeId = Schema.decodeUnknownEffect(AnyUuid)
const decodePosition = Schema.decodeUnknownEffect(Counter)
const noAutomation = Refused.notFound("Automation not found.")
const notFound = () => Effect.fail(noAutomation)

const idOf = ({ params }: Page.Asked) => Effect.mapError(decodeId(params["automationId"]), () => noAutomation)
const positionOf = ({ url }: Page.Asked) => {
  const given = url.searchParams.get("before")
  if (given === null) return Effect.succeed(null)
  return Effect.mapError(
    decodePosition(/^\d{1,16}$/u.test(given) ? Number(given) : null),
    () => Refused.bad("This link is out of date.")
  )
}

const row = ({ at, outcome, triggerId }: Run): Html =>
  html`
<tr>
<th scope="row">${exactMoment(at)}</th>
<td data-label="Started by">${startedBy(triggerId)}</td>
<td data-label="Outcome">${outcomeOf(outcome)}</td>
</tr>`

const facts = (automation: Automation, publicUrl: string): Html => {
  const { createdAt, id, settings } = automation
  const address = settings.trigger.type === "webhook" && html`<dt>Address</dt><dd><code>${triggerUrl(publicUrl, id)}</code></dd>`
  return html`<dl class="facts">
<dt>Trigger</dt><dd>${triggerOf(settings.trigger)}</dd>
${address}
<dt>State</dt><dd>${stateOf(automation)}</dd>
<dt>Next run</dt><dd>${nextOf(automation)}</dd>
<dt>Created</dt><dd>${moment(createdAt)}</dd>
</dl>`
}

export const make = Effect.gen(function*() {
  const automations = yield* Automations
  const { publicUrl } = yield* Settings

  const page = Effect.fnUntraced(function*(
    member: Page.Member,
    asked: Page.Asked,
    given: { readonly draft: AutomationForm.Draft; readonly problem: string; readonly status: number } | null
  ) {
    const { csrf, visit: { place: { grantId } } } = member
    const id = yield* idOf(asked)
    const before = yield* positionOf(asked)
    const automation = yield* automations.find(grantId, id)
    const { nextCursor, runs } = yield* automations.runs(grantId, id, { before, limit: PAGE })
    const isPaused = automation.paused !== null
    const action = (path: string, label: string, quiet: boolean) =>
      html`<form method="post" action="/automations/${id}/${path}">${csrf}<button${quiet && html` class="quiet"`}>${label}</button></form>
`
    const table = html`<table class="rows" aria-labelledby="log">
<thead><tr>${columnHeads("Time", "Started by", "Outcome")}</tr></thead>
<tbody>${runs.map(row)}
</tbody></table>`
    const newest = before !== null && html`<a href="/automations/${id}">Newest</a> `
    const older = nextCursor !== null && html`<a href="/automations/${id}?before=${nextCursor}" rel="next">Older</a>`
    const rotate = automation.settings.trigger.type === "webhook" &&
      html`<a class="button quiet" href="/automations/${id}/rotate-secret">Replace the secret</a>`
    const form = AutomationForm.render({
      action: `/automations/${id}`,
      csrf,
      draft: given?.draft ?? AutomationForm.draftOf(automation.settings),
      isNew: false,
      problem: given?.problem ?? null
    })
    const body = html`<h1>${visible(automation.settings.name)}</h1>
${given === null && Page.told(asked, MESSAGES)}
${facts(automation, publicUrl)}
<div class="actions">
${action("run", "Run now", false)}
${isPaused ? action("enable", "Enable", false) : action("pause", "Pause", true)}
${rotate}
<a class="button danger" href="/automations/${id}/remove">Remove</a>
</div>
<h2 id="log">Runs</h2>
${runs.length === 0 ? html`<p>${before === null ? "No runs yet." : "No older runs."}</p>` : table}
<p class="actions">${newest}${older}</p>
<p class="fine">Runs are kept for ${Duration.toDays(RUN_RETENTION)} days.</p>
${form}`
    return Page.show({ title: "Automation", place: "automations", body }, member, { status: given?.status ?? 200 })
  })

  const show: Handler = (member, asked) => Effect.catchTag(page(member, asked, null), "AutomationNotFound", notFound)

  const save: Handler = Effect.fnUntraced(function*(member, asked) {
    const id = yield* idOf(asked)
    const draft = yield* AutomationForm.sentIn(asked.form)
    const { settings: before } = yield* automations.find(member.visit.place.grantId, id)
    const again = (problem: string, status: number) => page(member, asked, { draft, problem, status })
    const settings = AutomationForm.settingsOf(draft, before.feedback)
    if (Result.isFailure(settings)) return yield* again(`${settings.failure.message}.`, 400)
    return yield* automations.change(principalOf(member.visit), id, settings.success).pipe(
      Effect.as(Page.redirect(`/automations/${id}?done=saved`)),
      Effect.catchTags({
        ApprovalsUnsupported: ({ message }) => again(message, 400),
        InvalidModel: ({ message }) => again(message, 400),
        InvalidReasoningEffort: ({ message }) => again(message, 400),
        InvalidRequest: ({ message }) => again(message, 400),
        RepoNotAccessible: ({ message }) => again(message, 400)
      })
    )
  }, Effect.catchTag("AutomationNotFound", notFound))

  const run: Handler = Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const { outcome } = yield* automations.runNow(member.visit.place.grantId, id)
      const isStarted = outcome.type === "started" || outcome.type === "starting"
      return Page.redirect(`/automations/${id}?done=${isStarted ? "started" : "not-started"}`)
    },
    Effect.catchTags({
      AutomationNotFound: notFound,
      AutomationPaused: ({ message }) => Effect.fail(new Refused({ status: 409, title: "Paused", text: message })),
      TooManyRuns: ({ message }) => Effect.fail(new Refused({ status: 409, title: "Too many runs", text: message }))
    })
  )

  const enable: Handler = Effect.fnUntraced(function*(member, asked) {
    const { id } = yield* automations.enable(member.visit.place.grantId, yield* idOf(asked))
    return Page.redirect(`/automations/${id}?done=enabled`)
  }, Effect.catchTag("AutomationNotFound", notFound))

  const pause: Handler = Effect.fnUntraced(function*(member, asked) {
    const { id } = yield* automations.pause(member.visit.place.grantId, yield* idOf(asked))
    return Page.redirect(`/automations/${id}?done=paused`)
  }, Effect.catchTag("AutomationNotFound", notFound))

  return { show, save, run, enable, pause, ...(yield* questions) }
})

/** The questions before actions that cannot be undone. */
const questions = Effect.gen(function*() {
  const automations = yield* Automations
  const along = `${Duration.toHours(SIGNS_ALONG)} hours`

  const askToRotate: Handler = Effect.fnUntraced(function*(member, asked) {
    const { id } = yield* automations.find(member.visit.place.grantId, yield* idOf(asked))
    const body = html`<h1>Replace the secret?</h1>
<p>The old secret stays valid for ${along}: give the sender the new one until then.</p>
<div class="actions">
<form method="post" action="/automations/${id}/rotate-secret">${member.csrf}<button>Replace secret</button></form>
<a class="button quiet" href="/automations/${id}">Cancel</a>
</div>`
    return Page.show({ title: "Replace the secret?", place: "automations", body }, member)
  }, Effect.catchTag("AutomationNotFound", notFound))

  const rotate: Handler = Effect.fnUntraced(function*(member, asked) {
    const { automation: { id }, secret } = yield* automations.rotateSecret(member.visit.place.grantId, yield* idOf(asked))
    if (secret === null) return yield* noAutomation
    const more = html`<p>The old secret stays valid for ${along}.</p>`
    const body = html`<h1>Secret replaced</h1>
${shownOnce({ label: "Secret", secret, then: `/automations/${id}`, more })}`
    return Page.show({ title: "Secret replaced", place: "automations", body }, member)
  }, Effect.catchTags({ AutomationNotFound: notFound, InvalidRequest: notFound }))

  const askToRemove: Handler = Effect.fnUntraced(function*(member, asked) {
    const { id, settings } = yield* automations.find(member.visit.place.grantId, yield* idOf(asked))
    const body = html`<h1>Remove this automation?</h1>
<p><strong>${visible(settings.name)}</strong> starts no more runs, and the list of its runs is deleted permanently. Its sandboxes stay.</p>
<div class="actions">
<form method="post" action="/automations/${id}/remove">${member.csrf}<button class="danger">Remove automation</button></form>
<a class="button quiet" href="/automations/${id}">Cancel</a>
</div>`
    return Page.show({ title: "Remove this automation?", place: "automations", body }, member)
  }, Effect.catchTag("AutomationNotFound", notFound))

  const remove: Handler = Effect.fnUntraced(function*(member, asked) {
    yield* automations.remove(member.visit.place.grantId, yield* idOf(asked))
    return Page.redirect("/automations?done=removed")
  }, Effect.catchTag("AutomationNotFound", notFound))

  return { askToRotate, rotate, askToRemove, remove }
})
