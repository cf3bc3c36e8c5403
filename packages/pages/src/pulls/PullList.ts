/** `/pulls`: the pull requests of the grant's sandboxes, those of the newest sandbox first, by state, checks and repository. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { SandboxDashboard, pullsOf } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { bytesOf, type ListPosition } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Publication, Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { ChangeCounts } from "@slipway/domain/source/schema/ChangeCounts"
import { sameRepo } from "@slipway/domain/source/schema/Naming"
import { PullState } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { nextPage } from "@slipway/domain/store/Page"
import * as ListCursor from "@slipway/http/server/ListCursor"
import { Settings } from "@slipway/http/server/Settings"
import { Clock, Duration, Effect, Layer, Option, Schema } from "effect"
import { HttpRouter } from "effect/http"
import { columnHeads, html, type Html } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import * as ListFilters from "../sandboxes/list/ListFilters.ts"
import { lastActiveAt } from "../shared/AttentionLabels.ts"
import * as Piece from "../shared/ListPiece.ts"
import { watchBar } from "../shared/ListTools.ts"
import { checksCell, ChecksState, checksStateOf, linesOf, linkTo, pullBadge } from "../shared/PullLabels.ts"
import { type Found, PullRequestCache, LISTED } from "../shared/PullRequestCache.ts"
import { labels } from "../shared/SandboxLabels.ts"
import * as WaitingPiece from "../shared/WaitingPiece.ts"

/** Sandboxes of one page; most have one pull request. */
const PAGE = 50

const asState = Schema.decodeUnknownOption(PullState)
const asChecks = Schema.decodeUnknownOption(ChecksState)
const asRepo = Schema.decodeUnknownOption(RepoName)

const NAMES: Readonly<Record<PullState, string>> = { draft: "Draft", open: "Open", merged: "Merged", closed: "Closed" }

/** Pages of sandboxes that a choice by checks looks through: their source host tells of each. */
const CHOSEN_PAGES = 4
/** How long it waits for source hosts, all pages together. */
const CHOICE_PATIENCE = Duration.seconds(3)
/** How long a list waits that is not chosen so: what comes later is there when it is looked at again. */
const PATIENCE = Duration.millis(60)

const CHECKS: Readonly<Record<ChecksState, string>> = { passing: "passing", failing: "failing", running: "running", none: "none" }

const HEADS = columnHeads("Pull request", "State", "Checks", "Repository", "Lines", "Files", "Last activity")

const checksOf = (found: Found): Html =>
  typeof found !== "string"
    ? checksCell(found.status.checks)
    : html`<span class="fine">${found === "reading" ? "Loading" : "Unknown"}</span>`

const row = (
  sandbox: Sandbox,
  publication: Publication,
  changes: ReadonlyArray<ChangeCounts> | undefined,
  found: Found
): Html => {
  const { actionState, error, number, repo, url } = publication
  const known = changes?.filter((one) => sameRepo(one.repo, repo))
  const doing = labels.action[actionState]
  const files = known?.reduce((sum, { changedFiles }) => sum + changedFiles, 0) ?? null
  return html`
<tr id="pull-${sandbox.id}-${repo}" data-item>
<th scope="row">${linkTo(url, `#${number ?? ""} ${sandbox.title}`)}</th>
<td data-label="State">${pullBadge(publication)}${doing !== "" && html` <span class="fine">${doing}</span>`}
${error !== null && html`<span class="problem">${error.message}</span>`}</td>
<td data-label="Checks">${checksOf(found)}</td>
<td data-label="Repository">${repo} <span class="fine"><a href="/sandboxes/${sandbox.id}">Sandbox<span class="unseen"> of
${sandbox.title}</span></a></span></td>
<td data-label="Lines">${linesOf(known)}</td>
<td data-label="Files">${files}</td>
<td data-label="Last activity">${moment(lastActiveAt(sandbox))}</td>
</tr>`
}

/** The list that an address asks for. */
interface Asked {
  readonly state: Option.Option<PullState>
  readonly checks: Option.Option<ChecksState>
  readonly repo: Option.Option<RepoName>
  /** The text in the field of the repository. */
  readonly typed: string
  readonly wrongRepo: boolean
  readonly after: Option.Option<ListPosition>
}

/** The address of the list with these filters. */
const addressOf = (state: PullState | null, checks: ChecksState | null, repo: string): string => {
  const query = new URLSearchParams({
    ...(state === null ? {} : { state }),
    ...(checks === null ? {} : { checks }),
    ...(repo === "" ? {} : { repo })
  })
  return query.size === 0 ? "/pulls" : `/pulls?${query}`
}

/** The states as links with their numbers. */
const chipsOf = ({ checks, state, typed }: Asked, counts: ReadonlyMap<PullState, number>): Html => {
  const [chosen, withChecks] = [Option.getOrNull(state), Option.getOrNull(checks)]
  const chip = (name: string, of: PullState | null, count: number) =>
    html`<li><a href="${addressOf(of, withChecks, typed)}"${of === chosen && html` aria-current="page"`}>${name} ${count}</a></li>
`
  const all = Array.from(counts.values()).reduce((sum, count) => sum + count, 0)
  const states = PullState.literals.filter((state) => state === chosen || (counts.get(state) ?? 0) > 0)
  return html`<nav aria-label="States" id="chips" data-piece="chips"><ul class="chips">
${chip("All", null, all)}${states.map((state) => chip(NAMES[state], state, counts.get(state) ?? 0))}</ul></nav>`
}

const filters = ({ checks, state, typed }: Asked): Html => {
  const chosen = Option.getOrNull(checks)
  const options = ChecksState.literals.map((value) =>
    html`<option value="${value}"${value === chosen && html` selected`}>Checks: ${CHECKS[value]}</option>
`
  )
  return html`<form class="filters" method="get" action="/pulls">
${Option.isSome(state) && html`<input type="hidden" name="state" value="${state.value}">`}
<div class="field"><label for="checks">Checks</label>
<select id="checks" name="checks">
<option value="">Checks: any</option>
${options}</select></div>
<div class="field"><label for="search">Repository</label>
<input id="search" name="repo" value="${typed}" placeholder="owner/name" autocomplete="off" spellcheck="false"></div>
<button class="quiet">Filter</button>
</form>`
}

interface Services {
  readonly dashboard: typeof SandboxDashboard.Service
  readonly waiting: Effect.Success<typeof WaitingPiece.make>
  readonly pullRequests: typeof PullRequestCache.Service
  readonly cursorKey: (typeof Settings.Service)["cursorKey"]
}

/** Pull requests of a page of sandboxes, each with what its source host told. */
const found = Effect.fnUntraced(function*(
  { pullRequests }: Services,
  by: Principal,
  sandboxes: ReadonlyArray<Sandbox>,
  of: (sandbox: Sandbox) => ReadonlyArray<Publication>,
  patience: Duration.Duration
) {
  const pulls = sandboxes.flatMap((sandbox) => of(sandbox).map((publication) => ({ sandbox, publication })))
  return yield* Effect.forEach(
    pulls,
    ({ publication, sandbox }) =>
      Effect.map(
        pullRequests.find(by, sandbox, publication.repo, { holds: LISTED, patience }),
        (found) => ({ sandbox, publication, found })
      ),
    { concurrency: "unbounded" }
  )
})

const read = Effect.fnUntraced(function*({ cursorKey }: Services, grantId: string, url: URL) {
  const given = (name: string) => url.searchParams.get(name)?.trim() ?? ""
  const state = asState(given("state"))
  const checks = asChecks(given("checks"))
  const repo = asRepo(given("repo"))
  if (given("state") !== "" && Option.isNone(state)) return yield* Refused.bad("Unknown filter.")
  if (given("checks") !== "" && Option.isNone(checks)) return yield* Refused.bad("Unknown filter.")
  const after = ListCursor.decode(cursorKey, grantId, given("after"))
  if (given("after") !== "" && Option.isNone(after)) return yield* Refused.bad("This link is out of date.")
  const asked: Asked = { state, checks, repo, typed: given("repo"), wrongRepo: given("repo") !== "" && Option.isNone(repo), after }
  return asked
})

/** The rows of one page. `unknown`: how many were left out because the state of their checks is not known. */
const rowsOf = Effect.fnUntraced(function*(services: Services, by: Principal, { after, checks, repo, state, wrongRepo }: Asked) {
  const { dashboard } = services
  const [pull, inRepo] = [Option.getOrElse(state, () => "any" as const), Option.getOrNull(repo)]
  const began = yield* Clock.currentTimeMillis
  const rows: Array<Html> = []
  let unknown = 0
  let more: Sandbox | null = null
  for (let pages = 1; !wrongRepo && pages <= (Option.isSome(checks) ? CHOSEN_PAGES : 1) && rows.length < PAGE; pages++) {
    const before: ListPosition | null = more ?? Option.getOrNull(after)
    const next: { readonly more: Sandbox | null; readonly page: ReadonlyArray<Sandbox> } = yield* nextPage(
      PAGE,
      bytesOf.sandbox,
      (last, limit) => dashboard.list(by.grantId, { after: last ?? before, limit, pull, repo: inRepo, attention: null, search: "" })
    )
    const changes = yield* dashboard.changes(next.page.map(({ id }) => id))
    const spent = (yield* Clock.currentTimeMillis) - began
    const patience = Option.isSome(checks) ? Duration.millis(Math.max(0, Duration.toMillis(CHOICE_PATIENCE) - spent)) : PATIENCE
    const pulls = yield* found(services, by, next.page, (sandbox) => pullsOf(sandbox, pull, inRepo), patience)
    for (const { found, publication, sandbox } of pulls) {
      if (Option.isSome(checks)) {
        const is = typeof found === "string" ? null : checksStateOf(found.status.checks)
        if (is === null) unknown++
        if (is !== checks.value) continue
      }
      rows.push(row(sandbox, publication, changes.get(sandbox.id), found))
    }
    more = next.more
    if (more === null) break
  }
  return { rows, unknown, more }
})

/** The list that an address asks for, as it is now. */
const look = Effect.fnUntraced(function*(services: Services, { visit }: Page.Member, url: URL) {
  const by = principalOf(visit)
  const asked = yield* read(services, by.grantId, url)
  const { rows, unknown, more } = yield* rowsOf(services, by, asked)
  const chosen = ListFilters.kept(url, ["state", "checks", "repo"])
  const next = new URLSearchParams(chosen)
  if (more !== null) next.set("after", ListCursor.encode(services.cursorKey, by.grantId, more))
  const none = chosen.size > 0 || Option.isSome(asked.after)
    ? html`<p>No pull requests match${more !== null && " so far"}. <a href="/pulls">Show all</a></p>`
    : html`<p>No pull requests yet. Publish the changes of a <a href="/sandboxes">sandbox</a>, or <a href="/new">start one</a>.</p>`
  const left = unknown > 0 && html`<p class="fine">${unknown} not loaded. <a href="/pulls${url.search}">Retry</a></p>`
  const list = asked.wrongRepo
    ? ListFilters.notARepo
    : rows.length === 0
    ? html`${none}${left}`
    : html`<table class="rows"><caption class="unseen">Pull requests, those of the newest sandbox first</caption>
<thead><tr>${HEADS}</tr></thead>
<tbody>${rows}
</tbody></table>${left}`
  const first = chosen.size === 0 ? "/pulls" : `/pulls?${chosen}`
  const newest = Option.isSome(asked.after) && html`<a href="${first}">Newest</a> `
  const older = more !== null && html`<a href="/pulls?${next.toString()}" rel="next">Older</a>`
  const piece = html`<div id="list" data-piece="list">
${list}
<p class="actions">${newest}${older}</p></div>`
  return { chips: chipsOf(asked, yield* services.dashboard.pullCounts(by.grantId)), piece, asked }
})

const get = (services: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, { url }) {
    const { asked, chips, piece } = yield* look(services, member, url)
    const body = html`<h1>Pull requests</h1>
<div class="list-head">${chips}
${filters(asked)}
${watchBar}</div>
<div id="watched" data-look="/pulls/rows${url.search}"></div>
${piece}
${yield* services.waiting(member.visit.place.grantId)}`
    const scripts = ["board.js"]
    return Page.show({ title: "Pull requests", place: "pulls", body, scripts }, member, { status: asked.wrongRepo ? 400 : 200 })
  })

/** The list alone, for `board.js`. */
const listAlone = (services: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, { url }) {
    const { chips, piece } = yield* look(services, member, url)
    return yield* Piece.answer(html`${chips}${piece}${yield* services.waiting(member.visit.place.grantId)}`)
  })

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const { cursorKey } = yield* Settings
  const services: Services = {
    dashboard: yield* SandboxDashboard,
    waiting: yield* WaitingPiece.make,
    pullRequests: yield* PullRequestCache,
    cursorKey
  }
  yield* members("/pulls", { GET: get(services) })
  yield* members("/pulls/rows", { GET: listAlone(services) })
})).pipe(Layer.provide(PullRequestCache.layer))
