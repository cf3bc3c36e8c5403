/** Where owners register endpoints of webhooks, see what became of each attempt, and change them (docs/decisions/11.4). */
import { scopesOf } from "@slipway/domain/access/rules/Minting"
import { Effect } from "effect"
import { HttpRouter } from "effect/http"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import * as WebhookForms from "./WebhookForms.ts"
import * as WebhookList from "./WebhookList.ts"
import * as WebhookPage from "./WebhookPage.ts"

const notTheirs = new Refused({
  status: 403,
  title: "Webhooks are for owners",
  text: "Ask an owner of your organization."
})

/** Admits people who may have endpoints; others do not learn whether there are any. */
const forOwners = (handler: Page.Handler<Page.Member>): Page.Handler<Page.Member> => (member, asked) =>
  scopesOf(member.visit.place.role).includes("webhooks") ? handler(member, asked) : Effect.fail(notTheirs)

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const list = yield* WebhookList.make
  const forms = yield* WebhookForms.make
  const get = (handler: Page.Handler<Page.Member>) => ({ GET: forOwners(handler) })
  const post = (handler: Page.Handler<Page.Member>) => ({ POST: forOwners(handler) })

  yield* members("/webhooks", { ...get(list.show), ...post(list.register) })
  yield* members("/webhooks/:endpointId", get(yield* WebhookPage.make))
  yield* members("/webhooks/:endpointId/rotate-secret", { ...get(forms.askToRotate), ...post(forms.rotate) })
  yield* members("/webhooks/:endpointId/remove", { ...get(forms.askToRemove), ...post(forms.remove) })
  yield* members("/webhooks/:endpointId/enable", post(forms.enable))
  yield* members("/webhooks/:endpointId/deliveries/:eventId/redeliver", post(forms.redeliver))
}))
