/** Where owners make automations, see their runs, and change them (docs/decisions/30). */
import { scopesOf } from "@slipway/domain/access/rules/Minting"
import { Effect } from "effect"
import { HttpRouter } from "effect/http"
import * as Form from "../layout/Form.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import * as AutomationList from "./AutomationList.ts"
import * as AutomationPage from "./AutomationPage.ts"

const notTheirs = new Refused({
  status: 403,
  title: "Automations are for owners",
  text: "Ask an owner of your organization."
})

/** Admits people who may have automations; others do not learn whether there are any. */
const forOwners = (handler: Page.Handler<Page.Member>): Page.Handler<Page.Member> => (member, asked) =>
  scopesOf(member.visit.place.role).includes("automations") ? handler(member, asked) : Effect.fail(notTheirs)

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const list = yield* AutomationList.make
  const one = yield* AutomationPage.make
  const get = (handler: Page.Handler<Page.Member>) => ({ GET: forOwners(handler) })
  const post = (handler: Page.Handler<Page.Member>) => ({ POST: forOwners(handler) })

  yield* members("/automations", { ...get(list.show), ...post(list.create), formBytes: Form.PROMPT_BYTES })
  yield* members("/automations/:automationId", { ...get(one.show), ...post(one.save), formBytes: Form.PROMPT_BYTES })
  yield* members("/automations/:automationId/rotate-secret", { ...get(one.askToRotate), ...post(one.rotate) })
  yield* members("/automations/:automationId/remove", { ...get(one.askToRemove), ...post(one.remove) })
  yield* members("/automations/:automationId/enable", post(one.enable))
  yield* members("/automations/:automationId/pause", post(one.pause))
  yield* members("/automations/:automationId/run", post(one.run))
}))
