/** `/webhooks/:endpointId`: how an endpoint stands, and every attempt to deliver an event to it. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import { type Attempt, LOG_RETENTION } from "@slipway/domain/partner/ports/WebhookStore"
import { type Endpoint, isDelivered, WAITS } from "@slipway/domain/partner/rules/Webhook"
import { AnyUuid } from "@slipway/domain/partner/schema/Attribution"
import type { NotificationType } from "@slipway/domain/partner/schema/NotificationType"
import type { PartnerEvent } from "@slipway/domain/partner/schema/PartnerEvent"
import { Partners } from "@slipway/domain/partner/usecases/Partners"
import { Webhooks } from "@slipway/domain/partner/usecases/Webhooks"
import { Counter } from "@slipway/domain/text/Text"
import { Duration, Effect, Schema } from "effect"
import { columnHeads, html, type Html } from "../html/Html.ts"
import { exactMoment, moment } from "../html/Moments.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import { outcomeOf, reachedOf, standingOf, typesOf } from "./WebhookLabels.ts"

/** Attempts of one page. */
const PAGE = 25

const MESSAGES = {
  enabled: "Resuming with the first undelivered events.",
  redelivering: "Sending the event again. Reload this page to see the result."
}

const decodeId = Schema.decodeUnknownEffect(AnyUuid)
const decodePosition = Schema.decodeUnknownEffect(Counter)

export const noEndpoint = Refused.notFound("Endpoint not found.")

/** The endpoint of the address. An invalid id is an unknown endpoint. */
export const idOf = ({ params }: Page.Asked) => Effect.mapError(decodeId(params["endpointId"]), () => noEndpoint)

const positionOf = ({ url }: Page.Asked) => {
  const given = url.searchParams.get("before")
  if (given === null) return Effect.succeed(null)
  return Effect.mapError(
    decodePosition(/^\d{1,16}$/u.test(given) ? Number(given) : null),
    () => Refused.bad("This link is out of date.")
  )
}

const took = (millis: number): string => millis < 1000 ? `${millis} ms` : `${(millis / 1000).toFixed(1)} s`

interface Line {
  readonly delivery: Attempt
  readonly type: PartnerEvent["type"] | NotificationType | undefined
  /** The event's newest one on this page: it has the button. */
  readonly isNewest: boolean
}

const row =
  (id: string, csrf: Html) =>
  ({ delivery: { at, attempt, durationMillis, eventId, manual, notification, outcome, sequence }, isNewest, type }: Line): Html => {
    const isSkipped = notification !== null && !manual && attempt > WAITS.length && !isDelivered(outcome)
    const of = notification !== null && html` of <a href="/sandboxes/${notification.sandboxId}">${notification.sandboxId}</a>`
    const said = outcome._tag === "Answered" && outcome.body !== null && html`
<details><summary>Response</summary><pre>${outcome.body}</pre></details>`
    const again = html`<form method="post" action="/webhooks/${id}/deliveries/${eventId}/redeliver">${csrf}
<button class="quiet" aria-label="Send again: event ${sequence}">Send again</button></form>`
    return html`
<tr>
<th scope="row">${exactMoment(at)}</th>
<td data-label="Event">${sequence} <code>${type ?? ""}</code>${of}</td>
<td data-label="Attempt">${manual ? "manual" : attempt}</td>
<td data-label="Outcome">${outcomeOf(outcome)}${isSkipped && "; skipped"}${said}</td>
<td data-label="Duration">${took(durationMillis)}</td>
<td>${isNewest && again}</td>
</tr>`
  }

const enableForm = ({ disabled, failures, id, refusingSince }: Endpoint, csrf: Html): Html | false =>
  (disabled !== null || failures > 0 || refusingSince !== null) &&
  html`<form method="post" action="/webhooks/${id}/enable">${csrf}<button>${disabled === null ? "Try again now" : "Enable"}</button></form>`

export const make = Effect.gen(function*() {
  const webhooks = yield* Webhooks
  const partners = yield* Partners

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const { csrf, visit } = member
    const { grantId } = visit.place
    const id = yield* idOf(asked)
    const before = yield* positionOf(asked)
    const endpoint = yield* webhooks.find(grantId, id)
    const { deliveries, nextCursor } = yield* webhooks.deliveries(grantId, id, { before, limit: PAGE })
    // The log knows an event by its place in the feed alone. Those of a page may be far apart.
    const events = yield* Effect.forEach(
      new Set(deliveries.flatMap(({ notification, sequence }) => notification === null ? [sequence] : [])),
      (sequence) => Effect.map(partners.feed(principalOf(visit), { after: sequence - 1, limit: 1 }), ({ events }) => events)
    )
    const types = new Map(events.flat().map(({ id, type }) => [id, type]))
    const lines = deliveries.map((delivery, i): Line => ({
      delivery,
      type: delivery.notification?.type ?? types.get(delivery.eventId),
      isNewest: deliveries.findIndex(({ eventId }) => eventId === delivery.eventId) === i
    }))
    const none = html`<p>${before === null ? "No attempts yet." : "No older attempts."}</p>`
    const table = html`<table class="rows attempts" aria-labelledby="log">
<thead><tr>${columnHeads("Time", "Event", "Attempt", "Outcome", "Duration")}<td></td></tr></thead>
<tbody>${lines.map(row(id, csrf))}
</tbody></table>`
    const newest = before !== null && html`<a href="/webhooks/${id}">Newest</a> `
    const older = nextCursor !== null && html`<a href="/webhooks/${id}?before=${nextCursor}" rel="next">Older</a>`
    const body = html`<h1>Endpoint</h1>
${Page.told(asked, MESSAGES)}
<dl class="facts">
<dt>Address</dt><dd><code>${endpoint.url}</code></dd>
<dt>Events</dt><dd>${typesOf(endpoint.types)}</dd>
<dt>State</dt><dd>${standingOf(endpoint)}</dd>
<dt>Delivered up to</dt><dd>${reachedOf(endpoint)}</dd>
<dt>Registered</dt><dd>${moment(endpoint.createdAt)}</dd>
</dl>
<div class="actions">
${enableForm(endpoint, csrf)}
<a class="button quiet" href="/webhooks/${id}/rotate-secret">Replace the secret</a>
<a class="button danger" href="/webhooks/${id}/remove">Remove</a>
</div>
<h2 id="log">Attempts</h2>
${lines.length === 0 ? none : table}
<p class="actions">${newest}${older}</p>
<p class="fine">Attempts are kept for ${Duration.toDays(LOG_RETENTION)} days.</p>`
    return Page.show({ title: "Endpoint", place: "webhooks", body }, member)
  }, Effect.catchTag("EndpointNotFound", () => Effect.fail(noEndpoint)))
  return get
})
