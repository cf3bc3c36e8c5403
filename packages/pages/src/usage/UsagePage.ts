/** `/usage`: for owners, what sandboxes cost and led to, and the workers of the service; the same numbers as CSV. */
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { addTokenCounts, noTokenCounts } from "@slipway/domain/models/rules/Usage"
import { type PastGroup, type Queue, SandboxDashboard, totalsBy } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { type KnownWorker, type Share, Workers } from "@slipway/domain/sandbox/ports/Workers"
import { StatusReason } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { saturatingAdd } from "@slipway/domain/text/Counters"
import { attachment } from "@slipway/http/server/reply/ContentDisposition"
import { DateTime, Effect, Schema } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { columnHeads, html, type Html } from "../html/Html.ts"
import { exactMoment } from "../html/Moments.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import { atWorkLabel } from "../shared/AttentionLabels.ts"
import { dollars, labels, tokensTold } from "../shared/SandboxLabels.ts"
import * as Chart from "./Chart.ts"

/** Named bars of a picture. */
const BARS = 8
/** Days that the charts can cover. */
const PERIODS = [7, 30, 90] as const
const DAYS = 30

const isReason = Schema.is(StatusReason)

const notTheirs = new Refused({ status: 403, title: "Usage is for owners", text: "Ask an owner of your organization." })

type Names = ReadonlyMap<string, string>

const sandboxes = (count: number) => `${count} ${count === 1 ? "sandbox" : "sandboxes"}`

const costOf = (past: ReadonlyArray<PastGroup>) => past.reduce((sum, { costMicroUsd }) => saturatingAdd(sum, costMicroUsd), 0)
const sumOf = (past: ReadonlyArray<PastGroup>, of: (group: PastGroup) => number) =>
  past.reduce((sum, group) => saturatingAdd(sum, of(group)), 0)

/** Every day, also those on which nothing was created. */
const byDay = (past: ReadonlyArray<PastGroup>, now: DateTime.Utc, days: number): ReadonlyArray<Chart.Bar> => {
  const totals = new Map(totalsBy(past, ({ day }) => day).map((total) => [total.key, total]))
  return Array.from({ length: days }, (_, i) => {
    const label = DateTime.formatIsoDateUtc(DateTime.subtract(now, { days: days - 1 - i }))
    const { costMicroUsd = 0, count = 0 } = totals.get(label) ?? {}
    return { label, value: costMicroUsd, text: `${dollars(costMicroUsd)}, ${sandboxes(count)}` }
  })
}

const byName = (past: ReadonlyArray<PastGroup>, keyOf: (group: PastGroup) => string, names?: Names): ReadonlyArray<Chart.Bar> => {
  const totals = totalsBy(past, keyOf)
  const rest = totals.slice(BARS)
  const sum = rest.reduce((total, { costMicroUsd }) => saturatingAdd(total, costMicroUsd), 0)
  return [
    ...totals.slice(0, BARS).map(({ costMicroUsd, key }) => ({
      label: names?.get(key) ?? key,
      value: costMicroUsd,
      text: dollars(costMicroUsd)
    })),
    ...(rest.length > 0 ? [{ label: `${rest.length} others`, value: sum, text: dollars(sum) }] : [])
  ]
}

const failures = (past: ReadonlyArray<PastGroup>): Html => {
  const found = totalsBy(past, ({ reason, status }) => status === "failed" ? reason ?? "" : null)
  const rows = [...found].sort((a, b) => b.count - a.count).map(({ count, key }) =>
    html`<tr><th scope="row">${isReason(key) ? labels.reason[key] : "No reason given"}</th><td>${count}</td></tr>
`
  )
  const table = html`<table class="figures"><caption class="unseen">Failures by reason</caption>
<thead><tr><th scope="col">Reason</th><th scope="col">Sandboxes</th></tr></thead>
<tbody>
${rows}</tbody></table>
<p><a href="/sandboxes?state=failed">Failed sandboxes</a></p>`
  return html`<h2>Failures by reason</h2>
${found.length === 0 ? html`<p class="fine">No failures.</p>` : table}`
}

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** `45 min`, `3.5 h`, `2.1 days`. */
const tookLabel = (millis: number): string =>
  millis < HOUR
    ? `${Math.round(millis / MINUTE)} min`
    : millis < DAY
    ? `${(millis / HOUR).toFixed(1)} h`
    : `${(millis / DAY).toFixed(1)} days`

/** The results of the period in one list: pull requests, how many were merged, how fast, and what one costs. */
const results = (past: ReadonlyArray<PastGroup>): Html => {
  const [pulls, merged] = [sumOf(past, (group) => group.pulls), sumOf(past, (group) => group.merged)]
  const [timed, waited] = [sumOf(past, ({ timedMerges }) => timedMerges), sumOf(past, ({ mergedAfterMs }) => mergedAfterMs)]
  const cost = costOf(past)
  const tokens = tokensTold(past.reduce((sum, group) => addTokenCounts(sum, group.tokens), noTokenCounts))
  return html`<dl class="facts">
<dt>Cost</dt><dd>${dollars(cost)}</dd>
<dt>Sandboxes</dt><dd>${sumOf(past, ({ count }) => count)}</dd>
${tokens !== null && html`<dt>Tokens</dt><dd>${tokens}</dd>`}
<dt>Pull requests</dt><dd>${pulls}</dd>
<dt>Merged</dt><dd>${merged}${pulls > 0 && `, ${Math.round(100 * merged / pulls)} % of them`}</dd>
${timed > 0 && html`<dt>From task to merge</dt><dd>${tookLabel(waited / timed)} on average</dd>`}
${merged > 0 && html`<dt>Cost per merge</dt><dd>${dollars(cost / merged)}</dd>`}
</dl>`
}

const share = ({ all, taken }: Share): string => `${taken} of ${all}, ${Math.max(0, all - taken)} free`

const workerState = ({ isDraining, isThere }: KnownWorker): Html =>
  !isThere
    ? html`<span class="state bad">Offline</span>`
    : isDraining
    ? html`<span class="state wait">Draining</span>`
    : html`<span class="state good">Accepting work</span>`

const workerRow = (known: KnownWorker): Html => {
  const { agents, boots, machine, seenAt, slots, worker } = known
  return html`<tr id="worker-${worker}"><th scope="row">${machine} <span class="fine">${worker}</span></th>
<td data-label="Status">${workerState(known)}</td>
<td data-label="Slots">${share(slots)}</td>
<td data-label="Agents">${share(agents)}</td>
<td data-label="Boots">${share(boots)}</td>
<td data-label="Last seen">${exactMoment(seenAt)}</td></tr>
`
}

const WORKER_HEADS = columnHeads("Machine", "Status", "Slots", "Agents", "Boots", "Last seen")

/** `workers`: `null` for readers who may not see them. */
const room = (queue: Queue, workers: ReadonlyArray<KnownWorker> | null): Html => {
  const table = workers !== null && workers.length > 0 && html`<table class="rows"><caption class="unseen">Workers</caption>
<thead><tr>${WORKER_HEADS}</tr></thead>
<tbody>
${workers.map(workerRow)}</tbody></table>`
  return html`<h2>Workers</h2>
<p>${atWorkLabel(queue)}, in all organizations together.</p>
${table}`
}

const filters = (days: number): Html => {
  const periods = PERIODS.map((period) =>
    html`<option value="${period}"${period === days && html` selected`}>Last ${period} days</option>
`
  )
  return html`<form class="filters" method="get" action="/usage">
<div class="field"><label for="days">Period</label>
<select id="days" name="days">
${periods}</select></div>
<button class="quiet">Filter</button>
</form>`
}

const spending = (past: ReadonlyArray<PastGroup>, names: Names, now: DateTime.Utc, days: number): Html => {
  const cost = (of: string) => ({
    caption: `Cost by ${of}`,
    head: of.replace(/^./u, (first) => first.toUpperCase()),
    unit: "Cost"
  })
  return html`<p class="fine">Cost by creation day (UTC) and first repository.</p>
${Chart.columns(cost("day"), byDay(past, now, days))}
${Chart.rows(cost("repository"), byName(past, ({ repo }) => repo))}
${Chart.rows(cost("model"), byName(past, ({ model }) => model))}
${Chart.rows(cost("person"), byName(past, ({ createdBy }) => createdBy, names))}
${failures(past)}`
}

/** A field of a CSV line (RFC 4180). A spreadsheet would take some first characters for a formula. */
const cell = (value: string | number): string => {
  const text = typeof value === "number" ? String(value) : /^[=+\-@\t\r]/u.test(value) ? `'${value}` : value
  return /[",\r\n]/u.test(text) ? `"${text.replaceAll("\"", "\"\"")}"` : text
}

const COLUMNS = ["day", "repository", "model", "person", "status", "reason", "sandboxes", "cost_usd", "input_tokens", "cached_input_tokens",
  "output_tokens", "pull_requests", "merged", "hours_to_merge"]

const csv = (past: ReadonlyArray<PastGroup>, names: Names): string => {
  const lines = past.map((group) => {
    const { costMicroUsd, count, createdBy, day, merged, mergedAfterMs, model, pulls, reason, repo, status, timedMerges, tokens } = group
    const hours = timedMerges === 0 ? "" : (mergedAfterMs / timedMerges / HOUR).toFixed(2)
    return [day, repo, model, names.get(createdBy) ?? createdBy, status, reason ?? "", count, (costMicroUsd / 1e6).toFixed(6), tokens.input,
      tokens.cachedInput, tokens.output, pulls, merged, hours]
  })
  return [COLUMNS, ...lines].map((line) => `${line.map(cell).join(",")}\r\n`).join("")
}

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const dashboard = yield* SandboxDashboard
  const workers = yield* Workers
  const store = yield* MemberStore

  /** The numbers of the period that the address names, with the names of people. */
  const read = Effect.fnUntraced(function*({ visit: { place } }: Page.Member, url: URL) {
    if (place.role !== "owner") return yield* notTheirs
    const given = url.searchParams.get("days") ?? String(DAYS)
    const days = PERIODS.find((period) => String(period) === given)
    if (days === undefined) return yield* Refused.bad("Unknown period.")
    const now = yield* DateTime.now
    const since = DateTime.startOf(DateTime.subtract(now, { days: days - 1 }), "day")
    const past = yield* dashboard.past(place.grantId, since)
    const names = new Map((yield* store.members(place.organizationId)).map(({ user }) => [user.id, user.name]))
    return { days, now, past, names }
  })

  const show: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, { url }) {
    const { days, names, now, past } = yield* read(member, url)
    const { grantId, organizationId } = member.visit.place
    const queue = yield* dashboard.queue(grantId)
    // Others than the owners of the organization that runs the service learn totals alone (SECURITY.md).
    const known = (yield* store.owner).organizationId === organizationId ? yield* workers.list : null
    const body = html`<h1>Usage</h1>
${filters(days)}
${results(past)}
<p><a href="/usage/csv?days=${days}" download>Download as CSV</a></p>
${spending(past, names, now, days)}
${room(queue, known)}`
    return Page.show({ title: "Usage", place: "usage", body }, member)
  })

  const download: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, { url }) {
    const { days, names, now, past } = yield* read(member, url)
    return HttpServerResponse.text(csv(past, names), {
      contentType: "text/csv; charset=utf-8",
      headers: { "content-disposition": attachment(`slipway-usage-${DateTime.formatIsoDateUtc(now)}-${days}-days.csv`) }
    })
  })

  yield* members("/usage", { GET: show })
  yield* members("/usage/csv", { GET: download })
}))
