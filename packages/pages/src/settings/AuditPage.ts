/** `/audit`: what happened to keys, people, sessions and secrets of the organization, for its owners. */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { type Actor, Action, type AuditEntry, AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { DateTime, Effect, Schema } from "effect"
import { HttpRouter } from "effect/http"
import { columnHeads, html, type Html } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"

/** Newest entries of the whole service that one page searches. */
const SEARCHED = 1_000
/** Found entries on a page. */
const SHOWN = 200

const PERIODS: ReadonlyMap<string, number> = new Map([["1", 1], ["7", 7], ["30", 30], ["365", 365]])
const USUAL = "7"

const notTheirs = new Refused({ status: 403, title: "The audit log is for owners", text: "Ask an owner of your organization." })

interface Organization {
  readonly id: string
  readonly grants: ReadonlySet<string>
  readonly names: ReadonlyMap<string, string>
}

/** Entries of a grant or an organization belong to it; those of a person alone to every organization of that person. */
const isOf = ({ grants, id, names }: Organization) => ({ subjects }: AuditEntry): boolean => {
  const { grantId, organizationId, userId } = subjects
  if (organizationId !== undefined) return organizationId === id
  return grantId !== undefined ? grants.has(grantId) : userId !== undefined && names.has(userId)
}

const nameOf = (actor: Actor, names: Organization["names"]): string => {
  switch (actor._tag) {
    case "Operator":
      return "An administrator, on the server"
    case "System":
      return "Slipway"
    case "User":
      return names.get(actor.userId) ?? actor.userId
    case "Key":
      return `Key ${actor.keyId}`
  }
}

const row = (entry: AuditEntry, names: Organization["names"]): Html => {
  const { action, actor, at, origin, subjects } = entry
  const about = Object.entries(subjects).map(([name, value]) =>
    html`<span>${name.replace(/Id$/u, "")} <code>${name === "userId" ? names.get(value) ?? value : value}</code></span> `
  )
  return html`
<tr>
<th scope="row"><code>${action}</code></th>
<td data-label="When">${moment(at)}</td>
<td data-label="Who">${nameOf(actor, names)}</td>
<td data-label="About">${about}</td>
<td data-label="Address">${origin === null || origin.address === "" ? "-" : origin.address}</td>
</tr>`
}

const filters = (period: string, action: Action | null): Html => {
  const periods = Array.from(
    PERIODS,
    ([value, days]) =>
      html`<option value="${value}"${value === period && html` selected`}>${days === 1 ? "Last 24 hours" : `Last ${days} days`}</option>
`
  )
  const actions = Action.literals.map((value) =>
    html`<option${value === action && html` selected`}>${value}</option>
`
  )
  return html`<form method="get" action="/audit" class="filters">
<div class="field">
<label for="days">Period</label>
<select id="days" name="days">
${periods}</select>
</div>
<div class="field">
<label for="action">Action</label>
<select id="action" name="action">
<option value="">All</option>
${actions}</select>
</div>
<button class="quiet">Filter</button>
</form>`
}

const isAction = Schema.is(Action)

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const pages = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const log = yield* AuditLog
  const access = yield* AccessStore
  const store = yield* MemberStore

  const organizationOf = Effect.fnUntraced(function*({ visit: { place } }: Page.Member) {
    const members = yield* store.members(place.organizationId)
    const grants = (yield* access.listGrants).filter(({ organizationId }) => organizationId === place.organizationId)
    return {
      id: place.organizationId,
      grants: new Set(grants.map(({ id }) => id)),
      names: new Map(members.map(({ user }) => [user.id, user.name]))
    }
  })

  const show: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, { url }) {
    if (member.visit.place.role !== "owner") return yield* notTheirs
    const period = url.searchParams.get("days") ?? USUAL
    const days = PERIODS.get(period)
    const wanted = url.searchParams.get("action") ?? ""
    const action = isAction(wanted) ? wanted : null
    if (days === undefined || wanted !== "" && action === null) return yield* Refused.bad("Unknown filter.")
    const organization = yield* organizationOf(member)
    const since = DateTime.subtract(yield* DateTime.now, { days })
    const searched = yield* log.list({ since, limit: SEARCHED })
    const found = searched.filter(isOf(organization)).filter((entry) => action === null || entry.action === action).reverse()
    const table = html`<table class="rows"><caption class="unseen">Audit log, newest first</caption>
<thead><tr>${columnHeads("Action", "When", "Who", "About", "Address")}</tr></thead>
<tbody>${found.slice(0, SHOWN).map((entry) => row(entry, organization.names))}
</tbody></table>`
    const isCut = searched.length === SEARCHED || found.length > SHOWN
    const body = html`<h1>Audit</h1>
<p>Changes of keys, members, sessions, webhooks and secrets, and decisions about approvals.</p>
${filters(period, action)}
${found.length === 0 ? html`<p>No entries in this period.</p>` : table}
${isCut && html`<p class="fine">There are older entries. An administrator reads all of them with <code>slipway audit</code>.</p>`}`
    return Page.show({ title: "Audit", place: "audit", body }, member)
  })

  yield* pages.members("/audit", { GET: show })
}))
