/** `/overview`: what waits for a person first, then what runs and what starts. */
import { type Queue, SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { type AttentionState, stateWords } from "@slipway/domain/sandbox/rules/AttentionState"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { Effect } from "effect"
import { HttpRouter } from "effect/http"
import type { Budget } from "../html/Fit.ts"
import { columnHeads, html, type Html } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"
import * as Page from "../layout/Page.ts"
import * as ListFilters from "../sandboxes/list/ListFilters.ts"
import { approvalCards, APPROVALS_BYTES } from "../sandboxes/page/SandboxPieces.ts"
import { because, lastActiveAt } from "../shared/AttentionLabels.ts"
import * as Piece from "../shared/ListPiece.ts"
import { keysHelp, watchBar } from "../shared/ListTools.ts"
import { dollars, labels } from "../shared/SandboxLabels.ts"
import * as WaitingPiece from "../shared/WaitingPiece.ts"

/** Sandboxes of each kind that are shown; the list has the others. */
const SHOWN = 20
/** Sandboxes of each kind that are read to find those of one person. */
const LOOKED_AT = 100
/** Owners see all sandboxes of the grant, members their own. */
const isShownTo = ({ visit: { place, user } }: Page.Member) => ({ createdBy }: Sandbox): boolean =>
  place.role === "owner" || createdBy === user.id

const waitingFor = (sandbox: Sandbox, { csrf }: Page.Member, here: string, space: Budget): Html => {
  const { id, repos, title } = sandbox
  const fields = html`${csrf}<input type="hidden" name="next" value="${here}">`
  return html`<li id="waiting-${id}" data-item><h3><a href="/sandboxes/${id}">${title}</a></h3>
<p class="fine">${repos.map(({ fullName }) => fullName).join(", ")}</p>
${approvalCards(sandbox, fields, space, `${id}-`)}</li>
`
}

const line = (sandbox: Sandbox, queue: Queue): Html => {
  const { id, model, repos, title, usage } = sandbox
  return html`<tr id="line-${id}" data-item><th scope="row"><a href="/sandboxes/${id}">${title}</a></th>
<td data-label="How">${because(sandbox, queue)}</td>
<td data-label="Repositories">${repos.map(({ fullName }) => fullName).join(", ")}</td>
<td data-label="Model">${model}</td>
<td data-label="Since">${moment(lastActiveAt(sandbox))}</td>
<td data-label="Cost">${dollars(usage.costMicroUsd)}</td></tr>
`
}

const HEADS = columnHeads("Title", "How", "Repositories", "Model", "Since", "Cost")
const NOTHING = html`<p class="fine">Nothing.</p>`

const lines = (attention: "starting" | "working", found: ReadonlyArray<Sandbox>, queue: Queue): Html => {
  const name = stateWords[attention]
  const more = found.length > SHOWN && html`<p><a href="/sandboxes?state=${attention}">All of them</a></p>`
  const rows = found.slice(0, SHOWN).map((sandbox) => line(sandbox, queue))
  const table = html`<table class="rows picks"><caption class="unseen">${name}</caption>
<thead><tr>${HEADS}</tr></thead>
<tbody>
${rows}</tbody></table>${more}`
  return html`<section aria-labelledby="${attention}-title"><h2 id="${attention}-title">${name}</h2>
${found.length === 0 ? NOTHING : table}</section>`
}

/** Messages after forms that lead back to this page. */
const MESSAGES = {
  approved: "Approved.",
  approved_turn: "Approved, and all of this kind until the turn ends.",
  denied: "Denied.",
  duplicate: "That was done before.",
  ...labels.rejection
}

/** The query of the page's address, for links back to it. */
const queryOf = (url: URL): string => {
  const kept = ListFilters.kept(url, ["search", "repo"])
  return kept.size === 0 ? "" : `?${kept}`
}

const filters = (narrowed: ListFilters.Narrowed): Html =>
  html`<form class="filters" method="get" action="/overview">
${ListFilters.searchField(narrowed)}
${ListFilters.repoField(narrowed)}
<button>Show</button>
</form>`

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const waitingOf = yield* WaitingPiece.make
  const dashboard = yield* SandboxDashboard

  /** The parts that change while the page is open. */
  const present = Effect.fnUntraced(function*(member: Page.Member, { noRepo, repo, search }: ListFilters.Narrowed, query: string) {
    const { grantId } = member.visit.place
    const isShown = isShownTo(member)
    const of = (attention: AttentionState) =>
      noRepo !== null ? Effect.succeed([]) : Effect.map(
        dashboard.list(grantId, { after: null, limit: LOOKED_AT, attention, repo, search }),
        (found) => found.filter(isShown)
      )
    const [asking, working, starting, queue] = yield* Effect.all(
      [of("asking"), of("working"), of("starting"), dashboard.queue(grantId)],
      { concurrency: 2 }
    )
    const space = { bytes: APPROVALS_BYTES }
    const cards = asking.slice(0, SHOWN).map((sandbox) => waitingFor(sandbox, member, `/overview${query}`, space))
    const more = asking.length > SHOWN && html`<p><a href="/sandboxes?state=asking">All of them</a></p>`
    const waiting = asking.length === 0 ? html`<p class="fine">Nothing waits for you.</p>` : html`<ul class="plain">${cards}</ul>${more}`
    return html`<div id="present" data-piece="present">
<section aria-labelledby="asking-title"><h2 id="asking-title">${stateWords.asking}</h2>
${waiting}</section>
${lines("working", working, queue)}
${lines("starting", starting, queue)}
</div>`
  })

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const narrowed = yield* ListFilters.read(asked.url)
    const { noRepo } = narrowed
    const query = queryOf(asked.url)
    const body = html`<h1>Overview</h1>
${Page.told(asked, MESSAGES)}
<p><a class="button" href="/new">New sandbox</a> <a class="button quiet" href="/sandboxes?state=ready">${stateWords.ready}</a></p>
${filters(narrowed)}
${noRepo !== null && ListFilters.notARepo}
${watchBar}
<div id="watched" data-look="/overview/present${query}"></div>
${yield* present(member, narrowed, query)}
${yield* waitingOf(member.visit.place.grantId)}
${keysHelp}`
    const page = { title: "Overview", place: "overview", body, scripts: ["board.js", "keys.js"] } as const
    return Page.show(page, member, { status: noRepo === null ? 200 : 400 })
  })

  /** The present alone, for `board.js`. */
  const look: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, { url }) {
    return yield* Piece.answer(
      html`${yield* present(member, yield* ListFilters.read(url), queryOf(url))}${yield* waitingOf(member.visit.place.grantId)}`
    )
  })

  yield* members("/overview", { GET: get })
  yield* members("/overview/present", { GET: look })
}))
