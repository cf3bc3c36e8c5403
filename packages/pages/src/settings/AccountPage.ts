/** `/settings`: who somebody is here, the grant they work in, and their sessions. */
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { Effect } from "effect"
import { HttpRouter } from "effect/http"
import { html, type Html } from "../html/Html.ts"
import * as Layout from "../layout/Layout.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"

const MESSAGES = { grant: "Grant switched." }

/** `from`: the place of the navigation that they come from, as the header says it. */
const grantForm = (csrf: Html, grants: Page.Person["grants"], current: string | null, from: string | null): Html => {
  const options = grants.map(({ id, name }) =>
    html`<option value="${id}"${id === current && html` selected`}>${name}</option>
`
  )
  return html`<form method="post" action="/grant">
${csrf}${from !== null && html`<input type="hidden" name="from" value="${from}">`}
<div class="field">
<label for="grant">Grant to work in</label>
<select id="grant" name="grant">
${options}</select>
</div>
<button class="quiet">Change grant</button>
</form>`
}

const account = ({ members }: { readonly members: typeof Members.Service }): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, asked) {
    const { csrf, grants, user, visit } = member
    const { grantId, organizationId, role } = visit.place
    const organization = yield* Effect.catchTag(members.organization(organizationId), "OrganizationNotFound", Effect.die)
    const body = html`<h1>Account</h1>
${Page.told(asked, MESSAGES)}
<dl class="facts">
<dt>Name</dt><dd>${user.name}</dd>
${user.githubLogin !== null && html`<dt>GitHub</dt><dd>${user.githubLogin}</dd>`}
${user.email !== null && html`<dt>E-mail</dt><dd>${user.email}</dd>`}
<dt>Organization</dt><dd>${organization.name}</dd>
<dt>Role</dt><dd>${role}</dd>
</dl>
${grants.length > 1 && grantForm(csrf, grants, grantId, null)}
<div class="actions">
<form method="post" action="/sign-out">${csrf}<button class="quiet">Sign out here</button></form>
<form method="post" action="/sign-out/everywhere">${csrf}<button class="quiet">Sign out everywhere</button></form>
</div>`
    return Page.show({ title: "Account", place: "settings", body }, member)
  })

const chooseGrant: Page.Handler<Page.Person> = (person, { url }) => {
  const { csrf, grants, visit } = person
  const choice = grants.length === 0
    ? html`<p>You have no grant to work in. Ask an owner of your organization.</p>`
    : grantForm(csrf, grants, visit.place?.grantId ?? null, url.searchParams.get("from"))
  return Effect.succeed(Page.show({
    title: "Choose a grant",
    body: html`<h1>Choose a grant</h1>
${choice}`
  }, person))
}

const changeGrant = (sessions: typeof Sessions.Service): Page.Handler<Page.Person> =>
  Effect.fnUntraced(function*({ grants, visit }, { form }) {
    const chosen = yield* form.one("grant")
    const from = yield* form.maybe("from")
    // The store would look any other text up as an id.
    const known = grants.find(({ id }) => id === chosen)
    if (known === undefined) return yield* Refused.notFound("Grant not found.")
    yield* Effect.catchTag(
      sessions.chooseGrant(visit.session, known.id),
      "GrantNotFound",
      () => Refused.notFound("Grant not found.")
    )
    return Page.redirect(from === null ? "/settings?done=grant" : `/${Layout.placeFor(from, known.role)}`)
  })

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const pages = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  yield* pages.members("/settings", { GET: account({ members: yield* Members }) })
  // Also for people who may not work in the grant they chose: another one may be open to them.
  yield* pages.people("/grant", { GET: chooseGrant, POST: changeGrant(yield* Sessions) })
}))
