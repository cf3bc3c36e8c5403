/** The forms of an endpoint's page, and the questions before actions that cannot be undone. */
import { SIGNS_ALONG } from "@slipway/domain/partner/rules/Webhook"
import { AnyUuid } from "@slipway/domain/partner/schema/Attribution"
import { Webhooks } from "@slipway/domain/partner/usecases/Webhooks"
import { Duration, Effect, Schema } from "effect"
import { html } from "../html/Html.ts"
import { shownOnce } from "../keys/ShownOnce.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import { idOf, noEndpoint } from "./WebhookPage.ts"

type Handler = Page.Handler<Page.Member>

const decodeEvent = Schema.decodeUnknownEffect(AnyUuid)
const noEvent = Refused.notFound("Event not found in the feed.")
const notFound = () => Effect.fail(noEndpoint)

const ALONG = `${Duration.toHours(SIGNS_ALONG)} hours`

export const make = Effect.gen(function*() {
  const webhooks = yield* Webhooks

  const askToRotate: Handler = Effect.fnUntraced(function*(member, asked) {
    const { id, url } = yield* webhooks.find(member.visit.place.grantId, yield* idOf(asked))
    const body = html`<h1>Replace the secret?</h1>
<p>From the next request on, <code>${url}</code> gets a second signature with a new secret. The old secret stays
valid for ${ALONG}: give your service the new one until then.</p>
<div class="actions">
<form method="post" action="/webhooks/${id}/rotate-secret">${member.csrf}<button>Replace secret</button></form>
<a class="button quiet" href="/webhooks/${id}">Cancel</a>
</div>`
    return Page.show({ title: "Replace the secret?", place: "webhooks", body }, member)
  }, Effect.catchTag("EndpointNotFound", notFound))

  const rotate: Handler = Effect.fnUntraced(function*(member, asked) {
    const { endpoint: { id, url }, secret } = yield* webhooks.rotateSecret(member.visit.place.grantId, yield* idOf(asked))
    const more = html`<p>Requests to <code>${url}</code> are signed with it from now on. The old secret stays valid for ${ALONG}.</p>`
    const body = html`<h1>Secret replaced</h1>
${shownOnce({ label: "Secret", secret, then: `/webhooks/${id}`, more })}`
    return Page.show({ title: "Secret replaced", place: "webhooks", body }, member)
  }, Effect.catchTag("EndpointNotFound", notFound))

  const askToRemove: Handler = Effect.fnUntraced(function*(member, asked) {
    const { id, url } = yield* webhooks.find(member.visit.place.grantId, yield* idOf(asked))
    const body = html`<h1>Remove this endpoint?</h1>
<p>Slipway stops sending to <code>${url}</code>. The secret and the list of attempts are deleted permanently.
The feed keeps its events.</p>
<div class="actions">
<form method="post" action="/webhooks/${id}/remove">${member.csrf}<button class="danger">Remove endpoint</button></form>
<a class="button quiet" href="/webhooks/${id}">Cancel</a>
</div>`
    return Page.show({ title: "Remove this endpoint?", place: "webhooks", body }, member)
  }, Effect.catchTag("EndpointNotFound", notFound))

  const remove: Handler = Effect.fnUntraced(function*(member, asked) {
    yield* webhooks.remove(member.visit.place.grantId, yield* idOf(asked))
    return Page.redirect("/webhooks?done=removed")
  }, Effect.catchTag("EndpointNotFound", notFound))

  const enable: Handler = Effect.fnUntraced(function*(member, asked) {
    const { id } = yield* webhooks.enable(member.visit.place.grantId, yield* idOf(asked))
    return Page.redirect(`/webhooks/${id}?done=enabled`)
  }, Effect.catchTag("EndpointNotFound", notFound))

  const redeliver: Handler = Effect.fnUntraced(function*(member, asked) {
    const id = yield* idOf(asked)
    const { grantId } = member.visit.place
    // An unknown endpoint is reported before an unknown event.
    yield* webhooks.find(grantId, id)
    const event = yield* Effect.mapError(decodeEvent(asked.params["eventId"]), () => noEvent)
    yield* webhooks.redeliver(grantId, id, event)
    return Page.redirect(`/webhooks/${id}?done=redelivering`)
  }, Effect.catchTags({ EndpointNotFound: notFound, PartnerEventNotFound: () => Effect.fail(noEvent) }))

  return { askToRotate, rotate, askToRemove, remove, enable, redeliver }
})
