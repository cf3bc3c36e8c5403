/** `/overview`: what waits for a person first, then what runs and what waits, and what the last weeks came to. */
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { addTokenCounts, noTokenCounts } from "@slipway/domain/models/rules/Usage"
import { SandboxDashboard, type PastGroup, type Queue, totalsBy } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { type KnownWorker, type Share, Workers } from "@slipway/domain/sandbox/ports/Workers"
import { type AttentionState, stateWords } from "@slipway/domain/sandbox/rules/AttentionState"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { StatusReason } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { saturatingAdd } from "@slipway/domain/text/Counters"
import { DateTime, Effect, Schema } from "effect"
import { HttpRouter } from "effect/http"
import type { Budget } from "../html/Fit.ts"
import { columnHeads, html, type Html } from "../html/Html.ts"
import { exactMoment, moment } from "../html/Moments.ts"
import * as Page from "../layout/Page.ts"
import * as ListFilters from "../sandboxes/list/ListFilters.ts"
import { approvalCards, APPROVALS_BYTES } from "../sandboxes/page/SandboxPieces.ts"
import { atWorkLabel, because, lastActiveAt } from "../shared/AttentionLabels.ts"
import * as Piece from "../shared/ListPiece.ts"
import { keysHelp, watchBar } from "../shared/ListTools.ts"
import { dollars, labels, tokensTold } from "../shared/SandboxLabels.ts"
import * as WaitingPiece from "../shared/WaitingPiece.ts"
import * as Chart from "./Chart.ts"

/** Sandboxes of each kind that are shown; the list has the others. */
const SHOWN = 20
/** Sandboxes of each kind that are read to find those of one person. */
const LOOKED_AT = 100
/** Named bars of a picture. */
const BARS = 8
/** Days that the charts can cover. */
const PERIODS = [7, 30, 90] as const
const DAYS = 30

const isReason = Schema.is(StatusReason)

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

const counted = (count: number, one: string, many: string) => `${count} ${count === 1 ? one : many}`

const share = ({ all, taken }: Share): string => `${taken} of ${all}, ${Math.max(0, all - taken)} free`

const workerState = ({ isDraining, isThere }: KnownWorker): Html =>
  !isThere
    ? html`<span class="state bad">Not heard of</span>`
    : isDraining
    ? html`<span class="state wait">Draining</span>`
    : html`<span class="state good">Takes on work</span>`

const workerRow = (known: KnownWorker): Html => {
  const { agents, boots, machine, seenAt, slots, worker } = known
  return html`<tr id="worker-${worker}"><th scope="row">${machine} <span class="fine">${worker}</span></th>
<td data-label="State">${workerState(known)}</td>
<td data-label="Slots">${share(slots)}</td>
<td data-label="Agents">${share(agents)}</td>
<td data-label="Boots">${share(boots)}</td>
<td data-label="Heard of">${exactMoment(seenAt)}</td></tr>
`
}

const WORKER_HEADS = columnHeads("Machine", "State", "Slots", "Agents", "Boots", "Heard of")

/** `workers`: `null` for readers who may not see them. */
const room = (queue: Queue, workers: ReadonlyArray<KnownWorker> | null): Html => {
  const table = workers !== null && workers.length > 0 && html`<table class="rows"><caption class="unseen">Workers</caption>
<thead><tr>${WORKER_HEADS}</tr></thead>
<tbody>
${workers.map(workerRow)}</tbody></table>`
  return html`<section aria-labelledby="room-title"><h2 id="room-title">Workers</h2>
<p>In all grants together: ${atWorkLabel(queue)}.</p>
${table}</section>`
}

/** Every day, also those on which nothing was created. */
const byDay = (past: ReadonlyArray<PastGroup>, now: DateTime.Utc, days: number): ReadonlyArray<Chart.Bar> => {
  const totals = new Map(totalsBy(past, ({ day }) => day).map((total) => [total.key, total]))
  return Array.from({ length: days }, (_, i) => {
    const label = DateTime.formatIsoDateUtc(DateTime.subtract(now, { days: days - 1 - i }))
    const { costMicroUsd = 0, count = 0 } = totals.get(label) ?? {}
    return { label, value: costMicroUsd, text: `${dollars(costMicroUsd)}, ${counted(count, "sandbox", "sandboxes")}` }
  })
}

const byName = (past: ReadonlyArray<PastGroup>, keyOf: (group: PastGroup) => string): ReadonlyArray<Chart.Bar> => {
  const totals = totalsBy(past, keyOf)
  const rest = totals.slice(BARS)
  const sum = rest.reduce((total, { costMicroUsd }) => total + costMicroUsd, 0)
  return [
    ...totals.slice(0, BARS).map(({ costMicroUsd, key }) => ({ label: key, value: costMicroUsd, text: dollars(costMicroUsd) })),
    ...(rest.length > 0 ? [{ label: `${rest.length} others`, value: sum, text: dollars(sum) }] : [])
  ]
}

const failures = (past: ReadonlyArray<PastGroup>): Html => {
  const found = totalsBy(past, ({ reason, status }) => status === "failed" ? reason ?? "" : null)
  const rows = [...found].sort((a, b) => b.count - a.count).map(({ count, key }) =>
    html`<tr><th scope="row">${isReason(key) ? labels.reason[key] : "It did not say why."}</th><td>${count}</td></tr>
`
  )
  const table = html`<table class="figures"><caption class="unseen">Failures by reason</caption>
<thead><tr><th scope="col">Reason</th><th scope="col">Sandboxes</th></tr></thead>
<tbody>
${rows}</tbody></table>
<p><a href="/sandboxes?state=failed">Those that failed</a></p>`
  return html`<h3>Failures by reason</h3>
${found.length === 0 ? NOTHING : table}`
}

const spending = (past: ReadonlyArray<PastGroup>, now: DateTime.Utc, days: number): Html => {
  const day = { caption: "Cost by day", head: "Day", unit: "Cost" }
  const repository = { caption: "Cost by repository", head: "Repository", unit: "Cost" }
  const model = { caption: "Cost by model", head: "Model", unit: "Cost" }
  const cost = past.reduce((sum, { costMicroUsd }) => saturatingAdd(sum, costMicroUsd), 0)
  const tokens = tokensTold(past.reduce((sum, group) => addTokenCounts(sum, group.tokens), noTokenCounts))
  return html`<section aria-labelledby="past-title"><h2 id="past-title">The last ${days} days</h2>
<p class="fine">What sandboxes cost so far, by the day (UTC) on which they were created and by the first of their repositories.</p>
<p id="past-total">In all ${dollars(cost)}${tokens !== null && html` · tokens: ${tokens}`}.</p>
${Chart.columns(day, byDay(past, now, days))}
${Chart.rows(repository, byName(past, ({ repo }) => repo))}
${Chart.rows(model, byName(past, (group) => group.model))}
${failures(past)}</section>`
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
  const kept = ListFilters.kept(url, ["search", "repo", "days"])
  return kept.size === 0 ? "" : `?${kept}`
}

const filters = (narrowed: ListFilters.Narrowed, days: number): Html => {
  const periods = PERIODS.map((period) =>
    html`<option value="${period}"${period === days && html` selected`}>The last ${period} days</option>
`
  )
  return html`<form class="filters" method="get" action="/overview">
${ListFilters.searchField(narrowed)}
${ListFilters.repoField(narrowed)}
<div class="field"><label for="days">Costs of</label>
<select id="days" name="days">
${periods}</select></div>
<button>Show</button>
</form>`
}

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const waitingOf = yield* WaitingPiece.make
  const dashboard = yield* SandboxDashboard
  const workers = yield* Workers
  const { owner } = yield* MemberStore

  /** Machines are shown to owners of the organization that runs the service. Others learn totals alone (SECURITY.md). */
  const workersFor = ({ visit: { place } }: Page.Member) =>
    place.role === "owner"
      ? Effect.flatMap(owner, ({ organizationId }) => organizationId === place.organizationId ? workers.list : Effect.succeed(null))
      : Effect.succeed(null)

  /** The parts that change while the page is open. */
  const present = Effect.fnUntraced(function*(member: Page.Member, { noRepo, repo, search }: ListFilters.Narrowed, query: string) {
    const { grantId } = member.visit.place
    const isShown = isShownTo(member)
    const of = (attention: AttentionState) =>
      noRepo !== null ? Effect.succeed([]) : Effect.map(
        dashboard.list(grantId, { after: null, limit: LOOKED_AT, attention, repo, search }),
        (found) => found.filter(isShown)
      )
    const [asking, working, starting, queue, known] = yield* Effect.all(
      [of("asking"), of("working"), of("starting"), dashboard.queue(grantId), workersFor(member)],
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
${room(queue, known)}
</div>`
  })

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const now = yield* DateTime.now
    const narrowed = yield* ListFilters.read(asked.url)
    const { noRepo, repo } = narrowed
    const days = PERIODS.find((period) => String(period) === ListFilters.given(asked.url, "days")) ?? DAYS
    const { grantId, role } = member.visit.place
    const since = DateTime.startOf(DateTime.subtract(now, { days: days - 1 }), "day")
    const past = role === "owner" && noRepo === null ? yield* dashboard.past(grantId, since) : null
    const chosen = repo?.toLowerCase() ?? null
    const of = past?.filter((group) => chosen === null || group.repo === chosen) ?? null
    const query = queryOf(asked.url)
    const body = html`<h1>Overview</h1>
${Page.told(asked, MESSAGES)}
<p><a class="button" href="/new">New sandbox</a> <a class="button quiet" href="/sandboxes?state=ready">${stateWords.ready}</a></p>
${filters(narrowed, days)}
${noRepo !== null && ListFilters.notARepo}
${watchBar}
<div id="watched" data-look="/overview/present${query}"></div>
${yield* present(member, narrowed, query)}
${yield* waitingOf(member.visit.place.grantId)}
${of !== null && spending(of, now, days)}
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
