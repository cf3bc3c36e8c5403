/** `/sandboxes`: the sandboxes of the reader's grant, newest first, by status and repository. */
import type { Grant } from "@slipway/domain/access/AccessStore"
import type { Principal } from "@slipway/domain/access/Principal"
import { principalOf } from "@slipway/domain/access/Session"
import { Sessions } from "@slipway/domain/access/Sessions"
import { nextPage } from "@slipway/domain/Page"
import type { Sandbox } from "@slipway/domain/sandbox/Sandbox"
import { Sandboxes } from "@slipway/domain/sandbox/Sandboxes"
import { SandboxStatus } from "@slipway/domain/sandbox/SandboxEvent"
import { bytesOf } from "@slipway/domain/sandbox/SandboxStore"
import { RepoName } from "@slipway/domain/source/RepoRef"
import { Effect, Option, Schema } from "effect"
import * as ListCursor from "../../server/ListCursor.ts"
import { Settings } from "../../server/Settings.ts"
import { columnHeads, html, type Html } from "../Html.ts"
import { moment } from "../Moments.ts"
import * as Page from "../Page.ts"
import { Refused } from "../Refused.ts"
import { words } from "./SandboxWords.ts"

const PAGE = 50
/** Other grants that are looked into. */
const MAX_OTHERS = 10

const asStatus = Schema.decodeUnknownOption(SandboxStatus)
const asRepo = Schema.decodeUnknownOption(RepoName)

/** US dollars; a sandbox often costs less than a cent. */
export const dollars = (microUsd: number): string => `$${(microUsd / 1_000_000).toFixed(4)}`

export const statusBadge = (status: SandboxStatus): Html => html`<span class="state ${words.tone[status]}">${words.status[status]}</span>`

const row = ({ createdAt, id, model, repos, status, title, usage }: Sandbox): Html =>
  html`
<tr>
<th scope="row"><a href="/sandboxes/${id}">${title}</a></th>
<td data-label="Status">${statusBadge(status)}</td>
<td data-label="Repositories">${repos.map(({ fullName }) => fullName).join(", ")}</td>
<td data-label="Model">${model}</td>
<td data-label="Created">${moment(createdAt)}</td>
<td data-label="Cost">${dollars(usage.costMicroUsd)}</td>
</tr>`

const filters = (status: SandboxStatus | null, repo: string): Html => {
  const statuses = SandboxStatus.literals.map((value) =>
    html`<option value="${value}"${value === status && html` selected`}>${words.status[value]}</option>
`
  )
  return html`
<form class="filters" method="get" action="/sandboxes">
<div class="field"><label for="status">Status</label>
<select id="status" name="status">
<option value="">Any</option>
${statuses}</select></div>
<div class="field"><label for="repo">Repository</label>
<input id="repo" name="repo" value="${repo}" placeholder="owner/name" autocomplete="off" spellcheck="false"></div>
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
<p>There is no sandbox here yet. Create one with a key, which you can make at <a href="/keys">Keys</a>:</p>
<pre tabindex="0"><code>curl -X POST ${publicUrl}/api/public/v1/sandboxes \\
  -H "Authorization: Bearer $SLIPWAY_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"repos":[{"fullName":"owner/name"}],"prompt":"Say hello."}'</code></pre>
<p>The <a href="/docs">reference</a> tells what else a creation takes.</p>`

export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const sessions = yield* Sessions
  const { cursorKey, publicUrl } = yield* Settings

  /** Of the reader's other grants, those with sandboxes; as many grants as one looks through. */
  const elsewhere = Effect.fnUntraced(function*(by: Principal, others: ReadonlyArray<Grant>) {
    const counts = yield* Effect.forEach(others.slice(0, MAX_OTHERS), ({ id, name }) =>
      Effect.map(
        sandboxes.list({ ...by, grantId: id }, { after: null, limit: PAGE + 1, repo: null, status: null }),
        (found) => ({ name, count: found.length })
      ), { concurrency: 4 })
    return counts.filter(({ count }) => count > 0)
  })

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, { url }) {
    const by = principalOf(member.visit)
    const given = (name: string) => url.searchParams.get(name) ?? ""
    const status = asStatus(given("status"))
    const repo = asRepo(given("repo").trim())
    if (given("status") !== "" && Option.isNone(status)) return yield* Refused.bad("There is no such status.")
    const wrongRepo = given("repo").trim() !== "" && Option.isNone(repo)
    const after = ListCursor.decode(cursorKey, by.grantId, given("after"))
    if (given("after") !== "" && Option.isNone(after)) return yield* Refused.bad("That is no page of this list.")

    const { more, page } = wrongRepo ?
      { more: null, page: [] } :
      yield* nextPage(PAGE, bytesOf.sandbox, (last, limit) =>
        sandboxes.list(by, {
          after: last ?? Option.getOrNull(after),
          limit,
          repo: Option.getOrNull(repo),
          status: Option.getOrNull(status)
        }))
    const chosen = new URLSearchParams([...url.searchParams].filter(([name, value]) => ["status", "repo"].includes(name) && value !== ""))
    const next = new URLSearchParams(chosen)
    if (more !== null) next.set("after", ListCursor.encode(cursorKey, by.grantId, more))
    const first = chosen.size === 0 ? "/sandboxes" : `/sandboxes?${chosen}`

    const grants = yield* sessions.grantsOf(by.userId)
    const others = first === "/sandboxes" && Option.isNone(after) ? yield* elsewhere(by, grants.filter(({ id }) => id !== by.grantId)) : []

    const table = html`<table class="rows"><caption class="unseen">Sandboxes, newest first</caption>
<thead><tr>${columnHeads("Title", "Status", "Repositories", "Model", "Created", "Cost")}</tr></thead>
<tbody>${page.map(row)}
</tbody></table>`
    const list = wrongRepo
      ? html`<p class="problem" role="alert">A repository is named owner/name.</p>`
      : page.length > 0
      ? table
      : chosen.size > 0 || Option.isSome(after)
      ? html`<p>There are no such sandboxes. <a href="/sandboxes">Show all</a></p>`
      : howToCreate(publicUrl)
    const newest = Option.isSome(after) && html`<a href="${first}">Newest</a> `
    const older = next.has("after") && html`<a href="/sandboxes?${next.toString()}" rel="next">Older</a>`

    const body = html`<h1>Sandboxes</h1>
${where(grants.find(({ id }) => id === by.grantId)?.name ?? by.grantId, others)}
${filters(Option.getOrNull(status), given("repo"))}
${list}
<p class="actions">${newest}${older}</p>`
    return Page.show({ title: "Sandboxes", place: "sandboxes", body }, member, { status: wrongRepo ? 400 : 200 })
  }, Effect.catchTag("InvalidRequest", Effect.die))
  return get
})
