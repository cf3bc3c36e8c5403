/** `/sandboxes`: the sandboxes of the reader's grant, newest first, by what they want of people, by repository and by title. */
import type { Grant } from "@slipway/domain/access/ports/AccessStore"
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { SandboxDashboard, type Queue } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { bytesOf } from "@slipway/domain/sandbox/ports/SandboxStore"
import { stateWords } from "@slipway/domain/sandbox/rules/AttentionState"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { AttentionState } from "@slipway/domain/sandbox/schema/AttentionState"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import type { ChangeCounts } from "@slipway/domain/source/schema/ChangeCounts"
import { nextPage } from "@slipway/domain/store/Page"
import * as ListCursor from "@slipway/http/server/ListCursor"
import { Settings } from "@slipway/http/server/Settings"
import { Effect, Option, Schema } from "effect"
import { columnHeads, html, type Html } from "../../html/Html.ts"
import { moment } from "../../html/Moments.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import { because, lastActiveAt, pullLinks, stateBadge } from "../../shared/AttentionLabels.ts"
import * as Piece from "../../shared/ListPiece.ts"
import { keysHelp, watchBar } from "../../shared/ListTools.ts"
import { linesOf } from "../../shared/PullLabels.ts"
import { dollars } from "../../shared/SandboxLabels.ts"
import * as WaitingPiece from "../../shared/WaitingPiece.ts"
import * as Composer from "../create/Composer.ts"
import * as ListFilters from "./ListFilters.ts"

const PAGE = 50
/** Other grants that are looked into. */
const MAX_OTHERS = 10
/** The queue where no sandbox of the page is queued: it is not read then. */
const NOTHING: Queue = { places: new Map(), atWork: 0, slots: 0 }

const asAttentionState = Schema.decodeUnknownOption(AttentionState)

const row = (sandbox: Sandbox, queue: Queue, changes: ReadonlyArray<ChangeCounts> | undefined): Html => {
  const { id, repos, title, usage } = sandbox
  const why = because(sandbox, queue)
  return html`
<tr id="row-${id}" data-item>
<td class="pick"><input type="checkbox" form="bulk" name="id" value="${id}" aria-label="Choose ${title}"></td>
<th scope="row"><a href="/sandboxes/${id}">${title}</a></th>
<td data-label="State">${stateBadge(sandbox)}${why !== "" && html` <span class="fine">${why}</span>`}</td>
<td data-label="Repositories">${repos.map(({ fullName }) => fullName).join(", ")}</td>
<td data-label="Lines">${linesOf(changes)}</td>
<td data-label="Pull request">${pullLinks(sandbox)}</td>
<td data-label="Last activity">${moment(lastActiveAt(sandbox))}</td>
<td data-label="Cost">${dollars(usage.costMicroUsd)}</td>
</tr>`
}

const filters = (attention: AttentionState | null, narrowed: ListFilters.Narrowed): Html => {
  const attentions = AttentionState.literals.map((value) => {
    const selected = value === attention && html` selected`
    return html`<option value="${value}"${selected}>${stateWords[value]}</option>
`
  })
  return html`
<form class="filters" method="get" action="/sandboxes">
${ListFilters.searchField(narrowed)}
<div class="field"><label for="state">State</label>
<select id="state" name="state">
<option value="">Any</option>
${attentions}</select></div>
${ListFilters.repoField(narrowed)}
<button>Show</button>
</form>`
}

const counted = (count: number): string => `${count > PAGE ? `more than ${PAGE}` : count} ${count === 1 ? "sandbox" : "sandboxes"}`

/** Which grant this is, and where else the reader's sandboxes are: what a key of another grant made is not in this list. */
const where = (own: string, elsewhere: ReadonlyArray<{ readonly name: string; readonly count: number }>): Html => {
  const others = elsewhere.map(({ count, name }) => html`; ${counted(count)} in grant <strong>${name}</strong>`)
  return html`
<p>In grant <strong>${own}</strong>${others}.${others.length > 0 && html` <a href="/grant">Change grant</a>`}</p>`
}

const howToCreate = (publicUrl: string): Html =>
  html`
<p>There is no sandbox here yet. Start one above, or create one with a key, which you can make at <a href="/keys">Keys</a>:</p>
<pre tabindex="0"><code>curl -X POST ${publicUrl}/api/public/v1/sandboxes \\
  -H "Authorization: Bearer $SLIPWAY_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"repos":[{"fullName":"owner/name"}],"prompt":"Say hello."}'</code></pre>
<p>The <a href="/docs">reference</a> tells what else a creation takes.</p>`

const HEADS = columnHeads("Title", "State", "Repositories", "Lines", "Pull request", "Last activity", "Cost")

type Changes = Effect.Success<ReturnType<SandboxDashboard["Service"]["changes"]>>

const table = (page: ReadonlyArray<Sandbox>, queue: Queue, changes: Changes): Html =>
  html`<table class="rows picks"><caption class="unseen">Sandboxes, newest first</caption>
<thead><tr><td class="pick"></td>${HEADS}</tr></thead>
<tbody>${page.map((sandbox) => row(sandbox, queue, changes.get(sandbox.id)))}
</tbody></table>
<form id="bulk" method="get" action="/sandboxes/terminate" class="actions"><button class="danger">Terminate the chosen…</button></form>`

interface Services {
  readonly sandboxes: typeof Sandboxes.Service
  readonly dashboard: typeof SandboxDashboard.Service
  readonly sessions: typeof Sessions.Service
  readonly composer: Effect.Success<typeof Composer.make>["composer"]
  readonly waiting: Effect.Success<typeof WaitingPiece.make>
  readonly cursorKey: (typeof Settings.Service)["cursorKey"]
  readonly publicUrl: string
}

/** The reader's other grants that have sandboxes, and how many; at most {@link MAX_OTHERS} grants are looked into. */
const elsewhere = Effect.fnUntraced(function*({ sandboxes }: Services, by: Principal, others: ReadonlyArray<Grant>) {
  const counts = yield* Effect.forEach(others.slice(0, MAX_OTHERS), ({ id, name }) =>
    Effect.map(
      sandboxes.list({ ...by, grantId: id }, { after: null, limit: PAGE + 1, repo: null, status: null }),
      (found) => ({ name, count: found.length })
    ), { concurrency: 4 })
  return counts.filter(({ count }) => count > 0)
})

/** The list that an address asks for, as it is now. */
const look = Effect.fnUntraced(function*({ cursorKey, dashboard, publicUrl }: Services, by: Principal, url: URL) {
  const attention = asAttentionState(ListFilters.given(url, "state"))
  if (ListFilters.given(url, "state") !== "" && Option.isNone(attention)) return yield* Refused.bad("There is no such state.")
  const narrowed = yield* ListFilters.read(url)
  const { repo, search } = narrowed
  const wrongRepo = narrowed.noRepo !== null
  const given = ListFilters.given(url, "after")
  const after = ListCursor.decode(cursorKey, by.grantId, given)
  if (given !== "" && Option.isNone(after)) return yield* Refused.bad("That is no page of this list.")

  const { more, page } = wrongRepo ?
    { more: null, page: [] } :
    yield* nextPage(PAGE, bytesOf.sandbox, (last, limit) =>
      dashboard.list(by.grantId, {
        after: last ?? Option.getOrNull(after),
        limit,
        repo,
        attention: Option.getOrNull(attention),
        search
      }))
  // The queue is read only if a sandbox of the page is in it.
  const queue = page.some(({ status }) => status === "queued") ? yield* dashboard.queue(by.grantId) : NOTHING
  const changes = yield* dashboard.changes(page.map(({ id }) => id))
  const chosen = ListFilters.kept(url, ["state", "repo", "search"])
  const next = new URLSearchParams(chosen)
  if (more !== null) next.set("after", ListCursor.encode(cursorKey, by.grantId, more))
  const first = chosen.size === 0 ? "/sandboxes" : `/sandboxes?${chosen}`
  const isFirst = Option.isNone(after)
  const none = chosen.size > 0 || !isFirst
    ? html`<p>There are no such sandboxes. <a href="/sandboxes">Show all</a></p>`
    : howToCreate(publicUrl)
  const list = wrongRepo
    ? ListFilters.notARepo
    : page.length > 0
    ? table(page, queue, changes)
    : none
  const newest = !isFirst && html`<a href="${first}">Newest</a> `
  const older = more !== null && html`<a href="/sandboxes?${next.toString()}" rel="next">Older</a>`
  const piece = html`<div id="list" data-piece="list">
${list}
<p class="actions">${newest}${older}</p></div>`
  return {
    piece,
    attention: Option.getOrNull(attention),
    narrowed,
    isPlain: first === "/sandboxes" && isFirst
  }
})

const get = (services: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, asked) {
    const { url } = asked
    const by = principalOf(member.visit)
    const { isPlain, narrowed, piece, attention } = yield* look(services, by, url)
    const grants = yield* services.sessions.grantsOf(by.userId)
    const others = isPlain ? yield* elsewhere(services, by, grants.filter(({ id }) => id !== by.grantId)) : []
    const body = html`<h1>Sandboxes</h1>
${Page.told(asked, { terminated: "They are being terminated." })}
${where(grants.find(({ id }) => id === by.grantId)?.name ?? by.grantId, others)}
<details class="start"><summary>New sandbox</summary>
${yield* services.composer(member)}</details>
${filters(attention, narrowed)}
${watchBar}
<div id="watched" data-look="/sandboxes/rows${url.search}"></div>
${piece}
${yield* services.waiting(member.visit.place.grantId)}
${keysHelp}`
    const scripts = ["board.js", "compose.js", "keys.js"]
    return Page.show({ title: "Sandboxes", place: "sandboxes", body, scripts }, member, { status: narrowed.noRepo === null ? 200 : 400 })
  }, Effect.catchTag("InvalidRequest", Effect.die))

/** The list alone, for `board.js`. */
const rows = (services: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, { url }) {
    const { piece } = yield* look(services, principalOf(member.visit), url)
    return yield* Piece.answer(html`${piece}${yield* services.waiting(member.visit.place.grantId)}`)
  })

/** The piece of sandboxes that wait for people, alone, for `waiting.js`. */
const asking = ({ waiting }: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*({ visit }) {
    return yield* Piece.answer(yield* waiting(visit.place.grantId))
  })

export const make = Effect.gen(function*() {
  const { cursorKey, publicUrl } = yield* Settings
  const services: Services = {
    sandboxes: yield* Sandboxes,
    dashboard: yield* SandboxDashboard,
    sessions: yield* Sessions,
    composer: (yield* Composer.make).composer,
    waiting: yield* WaitingPiece.make,
    cursorKey,
    publicUrl
  }
  return { get: get(services), rows: rows(services), asking: asking(services) }
})
