/** `/keys`: where people create, see and revoke keys. */
import type { KeyRecord } from "@slipway/domain/access/ports/AccessStore"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { type KeyState, keyState } from "@slipway/domain/access/rules/KeyState"
import { MAX_LIFE_DAYS, type Life, scopesOf } from "@slipway/domain/access/rules/Minting"
import type { Scope } from "@slipway/domain/access/schema/Principal"
import { Access, type MintedKey } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Settings } from "@slipway/http/server/Settings"
import { DateTime, Duration, Effect } from "effect"
import { HttpRouter } from "effect/http"
import { columnHeads, html, type Html } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import { shownOnce } from "./ShownOnce.ts"

const OPENS: Record<Scope, string> = {
  sandboxes: "start sandboxes, follow them and talk to them",
  "sandboxes:delete": "delete finished sandboxes and their data",
  webhooks: "register webhooks and change them",
  secrets: "choose branches whose setups get secrets",
  "partner:ingest": "send partner events",
  "metrics:read": "read metrics",
  automations: "manage automations",
  models: "connect providers of models",
  "audit:read": "read the audit log of the service"
}

const DAYS = [30, 90, 180, MAX_LIFE_DAYS]
const LIVES: ReadonlyMap<string, Life> = new Map<string, Life>([...DAYS.map((days) => [String(days), Duration.days(days)] as const), [
  "never",
  null
]])
const USUAL = "90"

/** Characters of a key's name, as people count them. */
const MAX_NAME = 120

const STATES: Record<KeyState, string> = { active: "good", expired: "wait", revoked: "bad" }

const MESSAGES = {
  revoked: "Key revoked."
}

const shownName = ({ label }: KeyRecord): string => label === "" ? "Unnamed" : label
const shownKey = ({ last4, prefix }: KeyRecord): Html => html`<code>${prefix}…${last4}</code>`

const row = ({ key, mayRevoke }: { readonly key: KeyRecord; readonly mayRevoke: boolean }, whose: string, now: DateTime.Utc): Html => {
  const state = keyState(key, now)
  return html`<tr>
<th scope="row">${shownName(key)}</th>
<td data-label="Key">${shownKey(key)}</td>
<td data-label="Permissions">${key.scopes.length === 0 ? "none" : key.scopes.join(", ")}</td>
<td data-label="Owner">${whose}</td>
<td data-label="Created">${moment(key.createdAt)}</td>
<td data-label="Last used">${key.lastUsedAt === null ? "never" : moment(key.lastUsedAt)}</td>
<td data-label="Expires">${key.expiresAt === null ? "never" : moment(key.expiresAt)}</td>
<td data-label="State"><span class="state ${STATES[state]}">${state}</span></td>
<td>${state !== "revoked" && mayRevoke && html`<a href="/keys/${key.id}/revoke" aria-label="Revoke ${shownName(key)}">Revoke</a>`}</td>
</tr>`
}

const mintForm = ({ csrf, visit }: Page.Member): Html => {
  const scopes = scopesOf(visit.place.role).map((scope, i) =>
    html`<div class="choice">
<input type="checkbox" id="scope-${scope}" name="scope" value="${scope}"${i === 0 && html` checked`}>
<label for="scope-${scope}"><code>${scope}</code>: ${OPENS[scope]}</label>
</div>
`
  )
  const lives = Array.from(
    LIVES.keys(),
    (life) =>
      html`<option value="${life}"${life === USUAL && html` selected`}>${life === "never" ? "never" : `after ${life} days`}</option>
`
  )
  return html`<form method="post" action="/keys" class="panel" aria-labelledby="new">
<h2 id="new">New key</h2>
${csrf}
<div class="field">
<label for="name">Name</label>
<input id="name" name="name" required autocomplete="off" aria-describedby="name-hint">
<p class="hint" id="name-hint">Where will you use it? Up to ${MAX_NAME} characters.</p>
</div>
<fieldset>
<legend>Permissions</legend>
${scopes}</fieldset>
<div class="field">
<label for="expires">Expires</label>
<select id="expires" name="expires">
${lives}</select>
</div>
<button>Create key</button>
</form>`
}

const minted = ({ key, record }: MintedKey, publicUrl: string): Html => {
  const expires = record.expiresAt === null ? "never" : moment(record.expiresAt)
  const more = html`<p>Permissions: ${record.scopes.join(", ")}. Expires: ${expires}. Programs send the key with each request:</p>
<pre tabindex="0"><code>curl ${publicUrl}/api/public/v1/sandboxes --header "Authorization: Bearer $SLIPWAY_API_KEY"</code></pre>`
  return html`<h1>Key “${shownName(record)}” created</h1>
${shownOnce({ label: "API key", secret: key, then: "/keys", more })}`
}

const revokeForm = ({ csrf }: Page.Member, key: KeyRecord): Html => {
  const used = key.lastUsedAt === null ? "was never used" : html`last used ${moment(key.lastUsedAt)}`
  return html`<h1>Revoke the key ${shownName(key)}?</h1>
<p>${shownKey(key)} was created ${moment(key.createdAt)} and ${used}. Programs
that use it fail from their next request on. This cannot be undone.</p>
<div class="actions">
<form method="post" action="/keys/${key.id}/revoke">${csrf}<button class="danger">Revoke key</button></form>
<a class="button quiet" href="/keys">Cancel</a>
</div>`
}

/** A name as it is kept. */
const nameOf = (text: string) => {
  const name = text.trim()
  const length = Array.from(name).length
  return length === 0
    ? Effect.fail(Refused.bad("A key needs a name."))
    : length > MAX_NAME
    ? Effect.fail(Refused.bad(`A key's name has at most ${MAX_NAME} characters; this one has ${length}.`))
    : /\p{Cc}/u.test(name)
    ? Effect.fail(Refused.bad("A key's name is one line of text."))
    : Effect.succeed(name)
}

interface Services {
  readonly access: typeof Access.Service
  readonly members: typeof Members.Service
  readonly store: typeof MemberStore.Service
  readonly publicUrl: string
}

/** The key of the address, if the member may revoke it. */
const revocable = Effect.fnUntraced(function*({ access }: Services, { visit }: Page.Member, id: string | undefined) {
  const found = (yield* access.keysFor(visit)).find(({ key, mayRevoke }) => key.id === id && mayRevoke)
  return found?.key ?? (yield* Refused.notFound("Key not found, or you can't revoke it."))
})

const list = ({ access, members, store }: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, asked) {
    const { grants, visit } = member
    const { grantId, organizationId } = visit.place
    const now = yield* DateTime.now
    const keys = yield* access.keysFor(visit)
    const names = new Map((yield* store.members(organizationId)).map(({ user }) => [user.id, user.name]))
    const organization = yield* Effect.catchTag(members.organization(organizationId), "OrganizationNotFound", Effect.die)
    const grant = grants.find(({ id }) => id === grantId)?.name ?? grantId
    const table = html`<table class="rows">
<thead><tr>${columnHeads("Name", "Key", "Permissions", "Owner", "Created", "Last used", "Expires", "State")}<td></td></tr></thead>
<tbody>
${keys.map((each) => row(each, names.get(each.key.userId) ?? each.key.userId, now))}
</tbody>
</table>`
    return Page.show({
      title: "Keys",
      place: "keys",
      body: html`<h1>Keys</h1>
${Page.told(asked, MESSAGES)}
<p>A key lets a program work in the grant <strong>${grant}</strong> of the organization <strong>${organization.name}</strong>.</p>
${keys.length === 0 ? html`<p>No keys yet.</p>` : table}
${mintForm(member)}`
    }, member)
  })

const mint = ({ access, publicUrl }: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, { form }) {
    const label = yield* nameOf(yield* form.one("name"))
    const offered = scopesOf(member.visit.place.role)
    const asked = form.all("scope")
    const scopes = offered.filter((scope) => asked.includes(scope))
    if (asked.length === 0) return yield* Refused.bad("Choose a permission.")
    if (scopes.length !== asked.length) return yield* Refused.bad("You can't grant these.")
    const life = LIVES.get(yield* form.one("expires"))
    if (life === undefined) return yield* Refused.bad("Choose an expiry from the list.")
    const key = yield* Effect.catchTag(
      access.mintOwn(member.visit, { label, scopes, life }),
      "MintRefused",
      ({ because, message }) =>
        Effect.fail(new Refused({ status: because === "too_many_keys" ? 409 : 403, title: "Key not created", text: message }))
    )
    return Page.show({ title: "Key created", place: "keys", body: minted(key, publicUrl) }, member)
  })

const askToRevoke = (services: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, { params }) {
    const key = yield* revocable(services, member, params["id"])
    if (key.revokedAt !== null) return Page.redirect("/keys?done=revoked")
    return Page.show({ title: `Revoke ${shownName(key)}`, place: "keys", body: revokeForm(member, key) }, member)
  })

const revoke = (services: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, { params }) {
    const { id } = yield* revocable(services, member, params["id"])
    yield* Effect.catchTag(
      services.access.revokeFor(member.visit, id),
      "KeyNotFound",
      () => Refused.notFound("Key not found, or you can't revoke it.")
    )
    return Page.redirect("/keys?done=revoked")
  })

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const pages = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const { publicUrl } = yield* Settings
  const services: Services = {
    access: yield* Access,
    members: yield* Members,
    store: yield* MemberStore,
    publicUrl
  }
  yield* pages.members("/keys", { GET: list(services), POST: mint(services), takesViewers: true })
  yield* pages.members("/keys/:id/revoke", { GET: askToRevoke(services), POST: revoke(services), takesViewers: true })
}))
