/** `/sandboxes`: the sandboxes of the reader's grant, newest first, and how they are searched and filtered. */
import type { Grant } from "@slipway/domain/access/ports/AccessStore"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { MAX_PINS, type Queue, SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { bytesOf } from "@slipway/domain/sandbox/ports/SandboxStore"
import { attentionStateOf, stateWords } from "@slipway/domain/sandbox/rules/AttentionState"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { AttentionState } from "@slipway/domain/sandbox/schema/AttentionState"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { nextPage } from "@slipway/domain/store/Page"
import { excerptOf } from "@slipway/domain/text/SearchText"
import * as ListCursor from "@slipway/http/server/ListCursor"
import { Settings } from "@slipway/http/server/Settings"
import { Effect, Option, Schema } from "effect"
import { columnHeads, html, type Html } from "../../html/Html.ts"
import { moment } from "../../html/Moments.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import { because, lastActiveAt, pullLinks, stateBadge, STATES } from "../../shared/AttentionLabels.ts"
import * as Piece from "../../shared/ListPiece.ts"
import { watchBar } from "../../shared/ListTools.ts"
import { linesOf } from "../../shared/PullLabels.ts"
import { Rail } from "../../shared/Rail.ts"
import { dollars, labels } from "../../shared/SandboxLabels.ts"
import * as WaitingPiece from "../../shared/WaitingPiece.ts"
import * as Composer from "../create/Composer.ts"
import * as ListFilters from "./ListFilters.ts"
import { mayDelete } from "./SandboxBulk.ts"

const PAGE = 50
/** Other grants that are looked into. */
const MAX_OTHERS = 10
/** The queue where no sandbox of the page is queued: it is not read then. */
const NOTHING: Queue = { places: new Map(), atWork: 0, slots: 0 }

const asAttentionState = Schema.decodeUnknownOption(AttentionState)

/** A command that a row of the list shows as a whole, in plain characters; others are decided on the page of their sandbox. */
const SHORT_COMMAND = /^[ -~]{1,100}$/u

/** The forms that decide on the only approval of a sandbox, if a row has room for all of it. */
const quickApproval = ({ approvals, id }: Sandbox, { csrf, here }: Place): Html | null => {
  const [approval, ...more] = approvals
  const { command, ...rest } = approval?.preview ?? {}
  if (approval === undefined || more.length > 0 || command === undefined || !SHORT_COMMAND.test(command)) return null
  if (Object.keys(rest).length > 0) return null
  return html`<form method="post" action="/sandboxes/${id}/approvals/${encodeURIComponent(approval.approval_id)}" class="approval quick"
id="approval-${id}">${csrf}<input type="hidden" name="next" value="${here}"><code>$ ${command}</code>
<button name="decision" value="approve">Approve<span class="unseen"> ${command}</span></button>
<button name="decision" value="deny" class="quiet">Deny<span class="unseen"> ${command}</span></button></form>`
}

/** Where the rows are shown: whose forms they have, and where these lead back to. */
interface Place {
  readonly csrf: Html
  readonly here: string
  readonly queue: Queue
  readonly changes: Changes
  /** Where a message was found, and not the title. */
  readonly excerpts: Excerpts
  readonly pins: ReadonlySet<SandboxId>
  /** The archived sandboxes are shown. */
  readonly archived: boolean
  /** The reader may delete sandboxes. */
  readonly deletes: boolean
}

const stateCell = (sandbox: Sandbox, place: Place): Html => {
  if (sandbox.approvals.length > 0 && sandbox.status === "running") {
    const quick = quickApproval(sandbox, place)
    const first = quick ?? html`<span class="wants">${because(sandbox, place.queue)}</span>
<a href="/sandboxes/${sandbox.id}#approvals">Review<span class="unseen"> ${sandbox.title}</span>…</a>`
    return html`${stateBadge(sandbox)} ${first}`
  }
  const why = because(sandbox, place.queue)
  if (attentionStateOf(sandbox) === "asking") {
    return html`${stateBadge(sandbox)} <span class="wants">${why}</span>
<a href="/sandboxes/${sandbox.id}#questions">Answer<span class="unseen"> ${sandbox.title}</span>…</a>`
  }
  return html`${stateBadge(sandbox)}${why !== "" && html` <span class="fine">${why}</span>`}`
}

const excerptPiece = (excerpt: string | undefined): Html | null =>
  excerpt === undefined ? null : html`<span class="excerpt">${excerpt}</span>`

/** The form is that of {@link table}. */
const pinButton = ({ id, title }: Sandbox, isPinned: boolean): Html =>
  html`<button form="pins" formaction="/sandboxes/${id}/pin" name="pinned" value="${isPinned ? "no" : "yes"}" class="quiet pin">
${isPinned ? "Unpin" : "Pin"}<span class="unseen"> ${title}</span></button>`

const row = (sandbox: Sandbox, place: Place, costs: boolean): Html => {
  const { id, repos, title, usage } = sandbox
  const cost = costs && html`<td data-label="Cost" class="cost">${dollars(usage.costMicroUsd)}</td>`
  return html`
<tr id="row-${id}" data-item>
<td class="pick"><input type="checkbox" form="bulk" name="id" value="${id}" aria-label="Select ${title}">
${pinButton(sandbox, place.pins.has(id))}</td>
<th scope="row"><a href="/sandboxes/${id}" title="${title}">${title}</a>${excerptPiece(place.excerpts.get(id))}</th>
<td data-label="State" class="wide">${stateCell(sandbox, place)}</td>
<td data-label="Repositories">${repos.map(({ fullName }) => fullName).join(", ")}</td>
<td data-label="Lines" class="lines">${linesOf(place.changes.get(id))}</td>
<td data-label="Pull request" class="pulls">${pullLinks(sandbox)}</td>
<td data-label="Last activity" class="age">${moment(lastActiveAt(sandbox))}</td>
${cost}</tr>`
}

/** The states as links with their counts, and the search. */
const filters = (
  attention: AttentionState | null,
  narrowed: ListFilters.Narrowed,
  counts: ReadonlyMap<AttentionState, number>
): Html => {
  const chip = (name: string, state: AttentionState | null, count: number) => {
    const current = state === attention && !narrowed.archived && html` aria-current="page"`
    return html`<li><a href="${ListFilters.addressOf({ ...narrowed, archived: false }, state)}"${current}>${name} ${count}</a></li>
`
  }
  const current = narrowed.archived && html` aria-current="page"`
  const archive = html`<li><a href="${ListFilters.addressOf({ ...narrowed, archived: true }, attention)}"${current}>Archived</a></li>
`
  const all = Array.from(counts.values()).reduce((sum, count) => sum + count, 0)
  const states = STATES.filter((state) => state === attention || (counts.get(state) ?? 0) > 0)
  return html`<nav aria-label="States" id="chips" data-piece="chips"><ul class="chips">
${chip("All", null, all)}${states.map((state) => chip(stateWords[state], state, counts.get(state) ?? 0))}${archive}</ul></nav>`
}

const searchForm = (
  attention: AttentionState | null,
  narrowed: ListFilters.Narrowed,
  people: ReadonlyArray<ListFilters.Person>
): Html =>
  html`<form class="filters" method="get" action="/sandboxes" role="search">
${attention !== null && html`<input type="hidden" name="state" value="${attention}">`}
${narrowed.archived && html`<input type="hidden" name="archived" value="yes">`}
${ListFilters.searchField(narrowed)}
${ListFilters.repoField(narrowed)}
${ListFilters.personField(people, narrowed)}
${ListFilters.metadataChips(narrowed, attention)}
<button class="quiet">Filter</button>
</form>`

const counted = (count: number): string => `${count > PAGE ? `${PAGE}+` : count} ${count === 1 ? "sandbox" : "sandboxes"}`

/** Where else the reader's sandboxes are: those of a key of another grant are not in this list. */
const where = (elsewhere: ReadonlyArray<{ readonly name: string; readonly count: number }>): Html =>
  html`<p class="fine">${elsewhere.map(({ count, name }) => html`${counted(count)} in grant <strong>${name}</strong>. `)}
<a href="/grant">Switch grant</a></p>`

const howToCreate = (publicUrl: string): Html =>
  html`
<p>No sandboxes yet. Start one above, or use the API with a <a href="/keys">key</a>:</p>
<pre tabindex="0"><code>curl -X POST ${publicUrl}/api/public/v1/sandboxes \\
  -H "Authorization: Bearer $SLIPWAY_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"repos":[{"fullName":"owner/name"}],"prompt":"Say hello."}'</code></pre>
<p>See the <a href="/docs">API reference</a>.</p>`

/** Sandboxes that the palette shows at once. */
const MAX_TITLES = 20

/** Messages after forms that lead back to this page. */
const MESSAGES = {
  terminated: "Stopping…",
  archived: "Archived.",
  unarchived: "In the list again.",
  deleted: "Deleted.",
  approved: "Approved.",
  denied: "Denied.",
  pinned: "Pinned.",
  unpinned: "Unpinned.",
  duplicate: "Already done.",
  ...labels.rejection
}

type Excerpts = ReadonlyMap<string, string>
type Changes = Effect.Success<ReturnType<SandboxDashboard["Service"]["changes"]>>

const HEADS = ["Title", "State", "Repositories", "Lines", "Pull request", "Last activity"]

const bulkButtons = ({ archived, deletes }: Place): Html =>
  html`${!archived && html`<button class="danger">End selected…</button>`}
<button class="quiet" formaction="/sandboxes/${archived ? "unarchive" : "archive"}">${archived ? "Unarchive" : "Archive"} selected…</button>
${deletes && html`<button class="danger" formaction="/sandboxes/delete">Delete selected…</button>`}`

/** `pinned`: those that stand first. `isGrouped`: the others stand by their states. */
const table = (page: ReadonlyArray<Sandbox>, pinned: ReadonlyArray<Sandbox>, place: Place, isGrouped: boolean): Html => {
  const costs = [...pinned, ...page].some(({ usage }) => usage.costMicroUsd > 0)
  const cost = costs && html`<col class="cost">`
  const group = (name: string | null, found: ReadonlyArray<Sandbox>) => {
    const head = name !== null && html`
<tr class="group"><th scope="rowgroup" colspan="${costs ? 8 : 7}">${name}</th></tr>`
    return found.length > 0 && html`<tbody>${head}${found.map((sandbox) => row(sandbox, place, costs))}
</tbody>`
  }
  const others = isGrouped
    ? STATES.map((state) => group(stateWords[state], page.filter((sandbox) => attentionStateOf(sandbox) === state)))
    : group(pinned.length > 0 ? "Others" : null, page)
  const bodies = html`${group("Pinned", pinned)}${others}`
  return html`<div class="lists"><table class="rows picks list"><caption class="unseen">Sandboxes, newest first</caption>
<colgroup><col class="pick"><col><col class="wide"><col class="repos"><col class="lines"><col class="pulls"><col class="age">${cost}
</colgroup>
<thead><tr><td class="pick"></td>${columnHeads(...HEADS, ...(costs ? ["Cost"] : []))}</tr></thead>
${bodies}</table>
<form id="pins" method="post">${place.csrf}<input type="hidden" name="next" value="${place.here}"></form>
<form id="bulk" method="get" action="/sandboxes/terminate" class="actions bulk">${bulkButtons(place)}</form></div>`
}

interface Services {
  readonly sandboxes: typeof Sandboxes.Service
  readonly dashboard: typeof SandboxDashboard.Service
  readonly sessions: typeof Sessions.Service
  readonly people: typeof MemberStore.Service
  readonly composer: Effect.Success<typeof Composer.make>["composer"]
  readonly waiting: Effect.Success<typeof WaitingPiece.make>
  readonly rail: typeof Rail.Service
  readonly cursorKey: (typeof Settings.Service)["cursorKey"]
  readonly publicUrl: string
}

/** The reader's other grants that have sandboxes, and how many; at most {@link MAX_OTHERS} grants are looked into. */
const elsewhere = Effect.fnUntraced(function*({ sandboxes }: Services, by: Principal, others: ReadonlyArray<Pick<Grant, "id" | "name">>) {
  const counts = yield* Effect.forEach(others.slice(0, MAX_OTHERS), ({ id, name }) =>
    Effect.map(
      sandboxes.list({ ...by, grantId: id }, { after: null, limit: PAGE + 1, repo: null, status: null }),
      (found) => ({ name, count: found.length })
    ), { concurrency: 4 })
  return counts.filter(({ count }) => count > 0)
})

/** The part of the newest message or prompt that was found, of sandboxes whose title was not. */
const excerptsOf = Effect.fnUntraced(function*(
  { dashboard }: Pick<Services, "dashboard">,
  grantId: string,
  page: ReadonlyArray<Sandbox>,
  search: string
) {
  const others = page.filter(({ title }) => !title.toLowerCase().includes(search.toLowerCase()))
  const said = yield* dashboard.said(grantId, others.map(({ id }) => id), search)
  return new Map(Array.from(said, ([id, text]) => [id, excerptOf(text, search)] as const))
})

/** The people who started the newest sandboxes of the grant, by name. */
const peopleOf = Effect.fnUntraced(function*({ dashboard, people }: Services, { visit: { place } }: Page.Member) {
  const starters = new Set((yield* dashboard.recent(place.grantId)).map(({ createdBy }) => createdBy))
  if (starters.size < 2) return []
  const members = yield* people.members(place.organizationId)
  return members.filter(({ user }) => starters.has(user.id)).map(({ user: { id, name } }): ListFilters.Person => ({ id, name })).sort((
    a,
    b
  ) => a.name.localeCompare(b.name))
})

/** The list that an address asks for, as it is now. */
const look = Effect.fnUntraced(function*({ cursorKey, dashboard, publicUrl }: Services, member: Page.Member, url: URL) {
  const by = principalOf(member.visit)
  const attention = asAttentionState(ListFilters.given(url, "state"))
  if (ListFilters.given(url, "state") !== "" && Option.isNone(attention)) return yield* Refused.bad("Unknown filter.")
  const narrowed = yield* ListFilters.read(url)
  const { archived, metadata, person, repo, search } = narrowed
  const wrongRepo = narrowed.noRepo !== null
  const given = ListFilters.given(url, "after")
  const after = ListCursor.decode(cursorKey, by.grantId, given)
  if (given !== "" && Option.isNone(after)) return yield* Refused.bad("This link is out of date.")

  const asked = { repo, attention: Option.getOrNull(attention), search, createdBy: person, metadata, archived }
  const { more, page } = wrongRepo ?
    { more: null, page: [] } :
    yield* nextPage(
      PAGE,
      bytesOf.sandbox,
      (last, limit) => dashboard.list(by.grantId, { ...asked, after: last ?? Option.getOrNull(after), limit })
    )
  const isFirst = Option.isNone(after)
  const pins = yield* dashboard.pins(by)
  const pinned = isFirst && !wrongRepo && pins.size > 0
    ? yield* dashboard.list(by.grantId, { ...asked, after: null, limit: MAX_PINS, pinnedBy: by.userId })
    : []
  const others = page.filter(({ id }) => pinned.every((one) => one.id !== id))
  const shown = [...pinned, ...others]
  // The queue is read only if a sandbox of the page is in it.
  const queue = shown.some(({ status }) => status === "queued") ? yield* dashboard.queue(by.grantId) : NOTHING
  const changes = yield* dashboard.changes(shown.map(({ id }) => id))
  const excerpts = yield* excerptsOf({ dashboard }, by.grantId, shown, search)
  const first = ListFilters.addressOf(narrowed, Option.getOrNull(attention))
  const counts = yield* dashboard.counts(by.grantId)
  const none = wrongRepo || first !== "/sandboxes" || !isFirst
    ? html`<p>No matching sandboxes. <a href="/sandboxes">Show all</a></p>`
    : howToCreate(publicUrl)
  const list = wrongRepo
    ? ListFilters.notARepo
    : shown.length > 0
    ? table(
      others,
      pinned,
      { csrf: member.csrf, here: `/sandboxes${url.search}`, queue, changes, excerpts, pins, archived, deletes: mayDelete(by) },
      isFirst && Option.isNone(attention)
    )
    : none
  const newest = !isFirst && html`<a href="${first}">Newest</a> `
  const last = more === null ? "" : ListCursor.encode(cursorKey, by.grantId, more)
  const next = ListFilters.addressOf(narrowed, Option.getOrNull(attention), last)
  const older = more !== null && html`<a href="${next}" rel="next">Older</a>`
  const chips = filters(Option.getOrNull(attention), narrowed, counts)
  const piece = html`<div id="list" data-piece="list">
${list}
<p class="actions">${newest}${older}</p></div>`
  return {
    chips,
    piece,
    attention: Option.getOrNull(attention),
    narrowed,
    isPlain: first === "/sandboxes" && isFirst && !wrongRepo,
    isEmpty: shown.length === 0
  }
})

const get = (services: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, asked) {
    const { url } = asked
    const by = principalOf(member.visit)
    const { attention, chips, isEmpty, isPlain, narrowed, piece } = yield* look(services, member, url)
    const grants = yield* services.sessions.grantsOf(by.userId)
    const others = isPlain ? yield* elsewhere(services, by, grants.filter(({ id }) => id !== by.grantId)) : []
    const body = html`<h1 class="unseen">Sandboxes</h1>
${Page.told(asked, MESSAGES, labels.rejection)}
${isPlain && (yield* services.composer(member))}
${others.length > 0 && where(others)}
<div class="list-head">${chips}
${searchForm(attention, narrowed, yield* peopleOf(services, member))}
${watchBar}</div>
<div id="watched" data-look="/sandboxes/rows${url.search}"></div>
${piece}
${!(isPlain && isEmpty) && html`<a class="button new" href="/new">+ New</a>`}
${yield* services.waiting(member.visit.place.grantId)}`
    const scripts = ["board.js", "compose.js"]
    return Page.show({ title: "Sandboxes", place: "sandboxes", body, scripts }, member, {
      status: narrowed.noRepo === null ? 200 : 400
    })
  }, Effect.catchTag("InvalidRequest", Effect.die))

/** The list alone, for `board.js`. */
const rows = (services: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, { url }) {
    const { chips, piece } = yield* look(services, member, url)
    const by = principalOf(member.visit)
    return yield* Piece.answer(html`${chips}${piece}${yield* services.rail.of(by, null)}${yield* services.waiting(by.grantId)}`)
  })

/** The piece of sandboxes that wait for people, and the rail, alone, for `waiting.js`. */
const asking = ({ rail, waiting }: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*({ visit }, { url }) {
    const by = principalOf(visit)
    return yield* Piece.answer(html`${yield* waiting(by.grantId)}${yield* rail.of(by, url.searchParams.get("at"))}`)
  })

/** The newest sandboxes that a search finds, as options of `palette.js`. */
const titles = ({ dashboard }: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*({ visit }, { url }) {
    const { search } = yield* ListFilters.read(url)
    const found = yield* dashboard.list(visit.place.grantId, { after: null, limit: MAX_TITLES, attention: null, repo: null, search })
    const excerpts = yield* excerptsOf({ dashboard }, visit.place.grantId, found, search)
    const options = found.map((sandbox) =>
      html`<a role="option" aria-selected="false" tabindex="-1" href="/sandboxes/${sandbox.id}">
<span class="what">${sandbox.title}${excerptPiece(excerpts.get(sandbox.id))}</span>
${stateBadge(sandbox)}</a>
`
    )
    return Page.fragment(html`${options}`)
  })

export const make = Effect.gen(function*() {
  const { cursorKey, publicUrl } = yield* Settings
  const services: Services = {
    sandboxes: yield* Sandboxes,
    dashboard: yield* SandboxDashboard,
    sessions: yield* Sessions,
    people: yield* MemberStore,
    composer: (yield* Composer.make).composer,
    waiting: yield* WaitingPiece.make,
    rail: yield* Rail,
    cursorKey,
    publicUrl
  }
  return { get: get(services), rows: rows(services), asking: asking(services), titles: titles(services) }
})
