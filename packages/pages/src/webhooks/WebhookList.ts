/** `/webhooks`: the endpoints of the reader's grant, and the form for another one. */
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { type Endpoint, EVENT_TYPES, MAX_ENDPOINTS } from "@slipway/domain/partner/rules/Webhook"
import { NOTIFICATION_TYPES } from "@slipway/domain/partner/schema/NotificationType"
import { Webhooks, type WithSecret } from "@slipway/domain/partner/usecases/Webhooks"
import { Effect } from "effect"
import { columnHeads, html, type Html } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"
import { shownOnce } from "../keys/ShownOnce.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import { reachedOf, standingOf, typesOf } from "./WebhookLabels.ts"

const MESSAGES = { removed: "Endpoint removed." }

/** The types that can be chosen. */
const TYPES = [...EVENT_TYPES, ...NOTIFICATION_TYPES]

/** The content of the form: at first no address, and every type of the feed. */
interface Draft {
  readonly url: string
  readonly types: ReadonlyArray<string>
  /** Why it was refused. */
  readonly problem: string | null
}
const blank: Draft = { url: "", types: EVENT_TYPES, problem: null }

const row = (endpoint: Endpoint): Html =>
  html`
<tr>
<th scope="row"><a href="/webhooks/${endpoint.id}">${endpoint.url}</a></th>
<td data-label="Events">${typesOf(endpoint.types)}</td>
<td data-label="State">${standingOf(endpoint)}</td>
<td data-label="Delivered up to">${reachedOf(endpoint)}</td>
<td data-label="Registered">${moment(endpoint.createdAt)}</td>
</tr>`

const registerForm = (csrf: Html, { problem, types, url }: Draft): Html => {
  const invalid = problem !== null && html` aria-invalid="true" aria-errormessage="problem"`
  const choice = (type: string) =>
    html`<div class="choice">
<input type="checkbox" id="type-${type}" name="type" value="${type}"${types.includes(type) && html` checked`}>
<label for="type-${type}"><code>${type}</code></label>
</div>
`
  const notifications = NOTIFICATION_TYPES.map(choice)
  return html`<form method="post" action="/webhooks" class="panel" aria-labelledby="new">
<h2 id="new">New endpoint</h2>
${csrf}
${problem !== null && html`<p class="problem" role="alert" id="problem">${problem}</p>`}
<div class="field">
<label for="url">Address</label>
<input id="url" name="url" value="${url}" required autocomplete="off" autocapitalize="none" spellcheck="false" placeholder="https://"
aria-describedby="url-hint"${invalid}>
<p class="hint" id="url-hint">Public https URL of your service. Each new event is sent there by POST.</p>
</div>
<fieldset aria-describedby="types-hint">
<legend>Events of the feed</legend>
${EVENT_TYPES.map(choice)}<p class="hint" id="types-hint">All types also include future ones, if no event of sandboxes is chosen.</p>
</fieldset>
<fieldset aria-describedby="notifications-hint">
<legend>Events of sandboxes</legend>
${notifications}<p class="hint" id="notifications-hint">Sent in order for each sandbox. A sandbox that failed has also ended.</p>
</fieldset>
<button>Register endpoint</button>
</form>`
}

const registered = ({ endpoint: { id, url }, secret }: WithSecret): Html => {
  const more = html`<p>Each request to <code>${url}</code> is signed with it. Reject requests whose signature does not match.</p>`
  return html`<h1>Endpoint registered</h1>
${shownOnce({ label: "Secret", secret, then: `/webhooks/${id}`, more })}`
}

export const make = Effect.gen(function*() {
  const webhooks = yield* Webhooks
  const sessions = yield* Sessions

  const page = Effect.fnUntraced(function*(member: Page.Member, told: Html | null, draft: Draft, status: number) {
    const { csrf, user, visit: { place: { grantId } } } = member
    const endpoints = yield* webhooks.list(grantId)
    const grant = (yield* sessions.grantsOf(user.id)).find(({ id }) => id === grantId)
    const name = grant?.name ?? grantId
    const table = html`<table class="rows webhooks"><caption class="unseen">Endpoints, oldest first</caption>
<thead><tr>${columnHeads("Address", "Events", "State", "Delivered up to", "Registered")}</tr></thead>
<tbody>${endpoints.map(row)}
</tbody></table>`
    const body = html`<h1>Webhooks</h1>
${told}
<p>Slipway sends events of the grant <strong>${name}</strong> and its sandboxes to your service by POST, in order. Verify the
signature with the endpoint's secret, ignore a <code>webhook-id</code> that you have seen, and read the <a href="/docs">feed</a>
after an outage.</p>
${endpoints.length === 0 ? html`<p>No webhooks yet.</p>` : table}
${registerForm(csrf, draft)}`
    return Page.show({ title: "Webhooks", place: "webhooks", body }, member, { status })
  })

  const show: Page.Handler<Page.Member> = (member, asked) => page(member, Page.told(asked, MESSAGES), blank, 200)

  const register: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, { form }) {
    const url = (yield* form.one("url")).trim()
    const chosen = form.all("type")
    const types = TYPES.filter((type) => chosen.includes(type))
    if (types.length !== chosen.length) return yield* Refused.bad("Unknown event type.")
    const again = (problem: string, status: number) => page(member, null, { url, types, problem }, status)
    if (types.length === 0) return yield* again("Choose an event.", 400)
    const isWholeFeed = types.length === EVENT_TYPES.length && EVENT_TYPES.every((type) => types.includes(type))
    return yield* webhooks.register(member.visit.place.grantId, { url, types: isWholeFeed ? null : types }).pipe(
      Effect.map((made) => Page.show({ title: "Endpoint registered", place: "webhooks", body: registered(made) }, member)),
      Effect.catchTags({
        // The reason begins with the field's name, for programs.
        TargetRefused: ({ reason }) => again(`This address cannot be used: ${reason.replace(/^url: /u, "")}.`, 400),
        TooManyEndpoints: () => again(`A grant may have ${MAX_ENDPOINTS} endpoints. Remove one first.`, 409)
      })
    )
  })

  return { show, register }
})
