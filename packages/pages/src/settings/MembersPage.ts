/** `/members`: who belongs to the organization. Owners add people, change their role and remove them. */
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { Member, User } from "@slipway/domain/access/rules/User"
import { Role } from "@slipway/domain/access/schema/User"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Effect, Schema } from "effect"
import { HttpRouter } from "effect/http"
import { columnHeads, html, type Html } from "../html/Html.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"

type Handler = Page.Handler<Page.Member>

const MESSAGES = {
  added: "Member added.",
  waiting: "Member added. An administrator must approve this person before they can sign in: slipway users approve",
  role: "Role changed. It takes effect with their next request.",
  removed: "Member removed. Their keys stop working with their next request."
}

const ROLES: Readonly<Record<Role, string>> = { owner: "Owner", member: "Member", viewer: "Viewer" }
const OTHERS: Readonly<Record<Role, ReadonlyArray<Role>>> = {
  owner: ["member", "viewer"],
  member: ["owner", "viewer"],
  viewer: ["member", "owner"]
}

const forOwners = (handler: Handler): Handler => (member, asked) =>
  member.visit.place.role === "owner"
    ? handler(member, asked)
    : Effect.fail(new Refused({ status: 403, title: "Only owners can change members", text: "Ask an owner of your organization." }))

const isYou = new Refused({
  status: 409,
  title: "You can't change your own membership",
  text: "Nothing changed, so that the organization keeps an owner. Ask another owner."
})

/** Removed ones count too: each is a row for good. */
const MAX_MEMBERS = 1_000
const full = new Refused({
  status: 409,
  title: "Your organization is full",
  text: `Nothing changed. An organization can have ${MAX_MEMBERS} members, with those who were removed.`
})

const noMember = Refused.notFound("This person is not a member of your organization.")

const stateOf = ({ active, user }: Member): Html =>
  active
    ? user.approvedAt === null
      ? html`<span class="state wait">Waiting for approval</span>`
      : html`<span class="state good">Active</span>`
    : html`<span class="state">Removed</span>`

const changeOf = (csrf: Html, user: User, role: Role): Html =>
  html`<form method="post" action="/members/role">${csrf}<input type="hidden" name="user" value="${user.id}">
<input type="hidden" name="role" value="${role}">
<button class="quiet" aria-label="Make ${role}: ${user.name}">Make ${role}</button></form>
`

/** The forms that change a member; none for yourself. */
const actions = (csrf: Html, { active, role, user }: Member): Html =>
  active
    ? html`<div class="actions">
${OTHERS[role].map((other) => changeOf(csrf, user, other))}
<a href="/members/remove?user=${user.id}" aria-label="Remove…: ${user.name}">Remove…</a>
</div>`
    : html`<form method="post" action="/members/role">${csrf}<input type="hidden" name="user" value="${user.id}">
<input type="hidden" name="role" value="${role}"><button class="quiet" aria-label="Add again: ${user.name}">Add again</button></form>`

const row = (me: Page.Member, member: Member): Html => {
  const { role, user } = member
  const isOther = user.id !== me.user.id
  return html`
<tr>
<th scope="row">${user.name}${!isOther && " (you)"}</th>
<td data-label="GitHub or e-mail">${user.githubLogin ?? user.email ?? "-"}</td>
<td data-label="Role">${ROLES[role]}</td>
<td data-label="State">${stateOf(member)}</td>
<td>${isOther && me.visit.place.role === "owner" && actions(me.csrf, member)}</td>
</tr>`
}

const addForm = (csrf: Html, { problem, user }: { readonly user: string; readonly problem: string | null }): Html => {
  const invalid = problem !== null && html` aria-errormessage="problem"`
  return html`<form method="post" action="/members" class="panel" aria-labelledby="add" autocomplete="off">
<h2 id="add">Add a member</h2>
${csrf}
${problem !== null && html`<p class="problem" role="alert" id="problem">${problem}</p>`}
<div class="field">
<label for="user">GitHub login or e-mail address</label>
<input id="user" name="user" value="${user}" required autocapitalize="none" spellcheck="false" aria-describedby="user-hint"${invalid}>
<p class="hint" id="user-hint">They sign in with GitHub under this login, or with OpenID Connect under this e-mail address. An
administrator can also make a sign-in link: <code>slipway sign-in-link</code>.</p>
</div>
<div class="field">
<label for="role">Role</label>
<select id="role" name="role" aria-describedby="role-hint">
<option value="member">Member</option>
<option value="owner">Owner</option>
<option value="viewer">Viewer</option>
</select>
<p class="hint" id="role-hint">Viewers see everything and change nothing. Owners also manage members, secrets, webhooks and models.</p>
</div>
<button>Add member</button>
</form>`
}

const EMPTY = { user: "", problem: null }
const isRole = Schema.is(Role)

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const pages = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const members = yield* Members
  const store = yield* MemberStore

  const page = Effect.fnUntraced(function*(member: Page.Member, told: Html | null, draft: Parameters<typeof addForm>[1], status: number) {
    const all = yield* store.members(member.visit.place.organizationId)
    const body = html`<h1>Members</h1>
${told}
<table class="rows"><caption class="unseen">Members of your organization</caption>
<thead><tr>${columnHeads("Name", "GitHub or e-mail", "Role", "State")}<td></td></tr></thead>
<tbody>${all.map((one) => row(member, one))}
</tbody></table>
${member.visit.place.role === "owner" && addForm(member.csrf, draft)}`
    return Page.show({ title: "Members", place: "members", body }, member, { status })
  })

  const show: Handler = (member, asked) => page(member, Page.told(asked, MESSAGES), EMPTY, 200)

  const roleOf = (text: string) => isRole(text) ? Effect.succeed(text) : Effect.fail(Refused.bad("Choose a role: owner, member or viewer."))

  /** The member with this id, who is somebody else. */
  const other = Effect.fnUntraced(function*(me: Page.Member, id: string) {
    if (id === me.user.id) return yield* isYou
    return (yield* store.members(me.visit.place.organizationId)).find(({ user }) => user.id === id) ?? (yield* noMember)
  })

  /** Owners of the organization that runs the service are its administrators, so whom they add needs no further approval. */
  const isAdministrators = (organizationId: string) => Effect.map(store.owner, (owner) => owner.organizationId === organizationId)

  const add: Handler = Effect.fnUntraced(function*(member, { form }) {
    const text = (yield* form.one("user")).trim()
    const role = yield* roleOf(yield* form.one("role"))
    const { organizationId } = member.visit.place
    if ((yield* store.members(organizationId)).length >= MAX_MEMBERS) return yield* full
    const known = yield* Effect.catchTags(members.user(text), {
      InvalidHandle: () => Effect.succeed(null),
      UserNotFound: () => Effect.succeed(null)
    })
    if (known?.id === member.user.id) return yield* isYou
    return yield* members.add(organizationId, text, role).pipe(
      Effect.flatMap(Effect.fnUntraced(function*({ user }) {
        if (user.approvedAt !== null) return Page.redirect("/members?done=added")
        // Somebody who was known, and is not approved, may have lost the approval.
        if (known !== null || !(yield* isAdministrators(organizationId))) return Page.redirect("/members?done=waiting")
        yield* members.approve(user.id)
        return Page.redirect("/members?done=added")
      })),
      Effect.catchTags({
        InvalidHandle: () => page(member, null, { user: text, problem: "Enter a GitHub login or an e-mail address." }, 400),
        UserNotFound: () => page(member, null, { user: text, problem: "There is no user with this id." }, 404),
        OrganizationNotFound: Effect.die
      })
    )
  })

  const changeRole: Handler = Effect.fnUntraced(function*(me, { form }) {
    const { user } = yield* other(me, yield* form.one("user"))
    const role = yield* roleOf(yield* form.one("role"))
    yield* Effect.catchTags(members.add(me.visit.place.organizationId, user.id, role), {
      InvalidHandle: Effect.die,
      UserNotFound: () => Effect.fail(noMember),
      OrganizationNotFound: Effect.die
    })
    return Page.redirect("/members?done=role")
  })

  const askToRemove: Handler = Effect.fnUntraced(function*(me, { url }) {
    const { user } = yield* other(me, url.searchParams.get("user") ?? "")
    const body = html`<h1>Remove ${user.name}?</h1>
<p>Their keys of your organization stop working, and its pages are closed to them. Sandboxes that they started go on. You can add them
again.</p>
<div class="actions">
<form method="post" action="/members/remove">${me.csrf}<input type="hidden" name="user" value="${user.id}">
<button class="danger">Remove member</button></form>
<a class="button quiet" href="/members">Cancel</a>
</div>`
    return Page.show({ title: `Remove ${user.name}`, place: "members", body }, me)
  })

  const remove: Handler = Effect.fnUntraced(function*(me, { form }) {
    const { user } = yield* other(me, yield* form.one("user"))
    yield* Effect.catchTags(members.remove(me.visit.place.organizationId, user.id), {
      InvalidHandle: Effect.die,
      UserNotFound: () => Effect.fail(noMember),
      MemberNotFound: () => Effect.fail(noMember),
      OrganizationNotFound: Effect.die
    })
    return Page.redirect("/members?done=removed")
  })

  yield* pages.members("/members", { GET: show, POST: forOwners(add) })
  yield* pages.members("/members/role", { POST: forOwners(changeRole) })
  yield* pages.members("/members/remove", { GET: forOwners(askToRemove), POST: forOwners(remove) })
}))
