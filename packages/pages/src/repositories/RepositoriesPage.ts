/** `/repositories`: what sandboxes can start from. Owners of the service add folders of its machine, and take them off the list. */
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { type Asked, ownersOf, RECENT, SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { pageOfNames, type Repository, SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { sameRepo } from "@slipway/domain/source/schema/Naming"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Cache, type DateTime, Effect, Exit, Option, Schema } from "effect"
import { HttpRouter } from "effect/http"
import { columnHeads, html, type Html } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import { isServiceOwner } from "../shared/ServiceOwners.ts"
import { MachineRepositories, type MachineRepository } from "./MachineRepositories.ts"

type Handler = Page.Handler<Page.Member>

/** Rows of a page. */
const SHOWN = 50
/** The page does not wait longer for a source host. */
const PATIENCE = "1500 millis"
/** Requests to the source host at once for default branches. */
const AT_A_TIME = 8
/** Characters of a path. */
const MAX_PATH = 1_000
/** Characters of a part of a name that is searched for, as many as a name has. */
const MAX_SEARCH = 201

const MESSAGES = {
  added: "Repository added. Sandboxes can start from it.",
  removed: "Repository removed from the list. Its folder was not changed."
}

export const notTheirs = new Refused({
  status: 403,
  title: "Repositories are for the service's owners",
  text: "Ask an owner of the organization that runs this service."
})

const notHere = new Refused({
  status: 409,
  title: "This service has no list of folders",
  text: "Repositories are added where the service's source host is, or on the machine of its worker: slipway repos add"
})

const unknown = Refused.notFound("This repository is not on the list.")

const isName = Schema.is(RepoName)

/** The name of the source host with the repositories of the service's machine. */
const LOCAL = "local"

/** A form as it was sent. A text that may hold a secret is not sent back. */
interface Draft {
  readonly name: string
  readonly folder: string
  readonly problem: { readonly field: "name" | "folder"; readonly text: string } | null
}

const EMPTY: Draft = { name: "", folder: "", problem: null }

/** The fault of a text as a folder; `null`: it is an absolute path. */
const faultOf = (folder: string): string | null => {
  if (folder === "") return "Enter the folder of the repository."
  if (/:\/\/|::/u.test(folder) || /^[^/]*:/u.test(folder)) {
    return "Enter a folder of the service's machine, not an address. Clone the repository there, and add the clone."
  }
  if (!folder.startsWith("/")) return "Enter an absolute path, such as /srv/git/shop."
  if (folder.length > MAX_PATH) return `A path can have up to ${MAX_PATH.toLocaleString("en")} characters.`
  return /[\p{Cc}\p{Zl}\p{Zp}]/u.test(folder) ? "A path has no line breaks and no control characters." : null
}

/** How a grant used a repository lately. */
interface Use {
  readonly last: DateTime.Utc
  readonly count: number
}

/** The repositories that sandboxes of the grant ran with lately, by lower-case name. */
const usesOf = (recent: ReadonlyArray<Asked>): ReadonlyMap<string, Use & { readonly fullName: RepoName }> => {
  const uses = new Map<string, Use & { readonly fullName: RepoName }>()
  for (const { createdAt, repos, started } of recent) {
    for (const { fullName } of started ? repos : []) {
      const known = uses.get(fullName.toLowerCase())
      uses.set(fullName.toLowerCase(), {
        fullName: known?.fullName ?? fullName,
        last: known?.last ?? createdAt,
        count: (known?.count ?? 0) + 1
      })
    }
  }
  return uses
}

interface Row {
  readonly fullName: RepoName
  readonly host: string
  readonly branch: string | null
  readonly use: Use | undefined
  /** For owners of the service, of a repository of its machine. */
  readonly machine: MachineRepository | undefined
  /** Whether the reader may change the settings of its pull requests. */
  readonly mayChoose: boolean
}

const rowOf = ({ branch, fullName, host, machine, mayChoose, use }: Row): Html => {
  const list = `/sandboxes?${new URLSearchParams({ search: "", repo: fullName }).toString()}`
  const used = use === undefined ? "0" : html`<a href="${list}">${use.count}<span class="unseen"> with ${fullName}</span></a>`
  const question = `/repositories/remove?${new URLSearchParams({ name: fullName }).toString()}`
  const chosen = `/repositories/settings?${new URLSearchParams({ name: fullName }).toString()}`
  const settings = mayChoose && html`<a href="${chosen}" aria-label="Settings: ${fullName}">Settings</a> `
  const removes = machine !== undefined && html`<a href="${question}" aria-label="Remove…: ${fullName}">Remove…</a>`
  return html`
<tr>
<th scope="row">${fullName}${machine !== undefined && html` <span class="fine">${machine.path}</span>`}</th>
<td data-label="Host">${host === LOCAL ? "Machine of the service" : host}</td>
<td data-label="Default branch">${branch ?? "-"}</td>
<td data-label="Last used">${use === undefined ? "-" : moment(use.last)}</td>
<td data-label="Sandboxes">${used}</td>
<td>${settings}${removes}</td>
</tr>`
}

const addForm = (csrf: Html, { folder, name, problem }: Draft): Html => {
  const described = (field: "name" | "folder") =>
    html` aria-describedby="${field}-hint"${problem?.field === field && html` aria-invalid="true" aria-errormessage="problem"`}`
  return html`<form method="post" action="/repositories" class="panel" aria-labelledby="add" autocomplete="off">
<h2 id="add">Add a repository</h2>
${csrf}
${problem !== null && html`<p class="problem" role="alert" id="problem">${problem.text}</p>`}
<div class="field">
<label for="name">Name</label>
<input id="name" name="name" value="${name}" required maxlength="201" placeholder="owner/name" autocapitalize="none"
spellcheck="false"${described("name")}>
<p class="hint" id="name-hint">Sandboxes, branches and pull requests use it.</p>
</div>
<div class="field">
<label for="folder">Folder on the service's machine</label>
<input id="folder" name="folder" value="${folder}" required maxlength="${MAX_PATH}" placeholder="/srv/git/shop" autocapitalize="none"
spellcheck="false"${described("folder")}>
<p class="hint" id="folder-hint">An absolute path: a checkout or a bare repository. Sandboxes push branches there that start with
<code>slipway/</code>. On the machine, <code>slipway repos add owner/name PATH</code> does the same.</p>
</div>
<button>Add repository</button>
</form>`
}

/** Where others than the page's form add repositories. */
/** `hosts`: their names. */
const elsewhere = (hosts: ReadonlyArray<string>): Html =>
  hosts.every((host) => host === LOCAL)
    ? html`<p class="fine">An administrator adds repositories on the machine of the service:
<code>slipway repos add owner/name PATH</code></p>`
    : html`<p class="fine">Sandboxes can start from the repositories that ${hosts.join(", ")} let${hosts.length === 1 && "s"} this
service use. With GitHub, install the service's GitHub App on the account or the repository.</p>`

const searchForm = (search: string): Html =>
  html`<form class="filters" method="get" action="/repositories" role="search">
<div class="field"><label for="search">Search repositories</label>
<input id="search" name="search" type="search" value="${search}" maxlength="${MAX_SEARCH}" placeholder="Part of a name"
autocomplete="off"></div>
<button class="quiet">Search</button> ${search !== "" && html`<a href="/repositories">Show all</a>`}</form>`

interface Services {
  readonly dashboard: typeof SandboxDashboard.Service
  readonly people: typeof MemberStore.Service
  /** `null`: the service has no source host. */
  readonly source: typeof SourceHost.Service | null
  readonly machine: typeof MachineRepositories.Service | null
  branchOf(name: RepoName): Effect.Effect<string | null>
}

/** Names on the page, and one more if there are others after them. */
const namesOf = Effect.fnUntraced(function*(
  { source }: Services,
  recent: ReadonlyArray<Asked>,
  query: { readonly search: string; readonly after: RepoName | null }
) {
  const limit = SHOWN + 1
  const listed = source === null ? [] : yield* source.repositories({ ...query, owners: [...ownersOf(recent)], limit }).pipe(
    Effect.timeout(PATIENCE),
    Effect.catch((error) => Effect.as(Effect.logDebug("the source host lists no repositories", error), null))
  )
  const seen = new Set((listed ?? []).map((name) => name.toLowerCase()))
  // A repository that was used may have been removed since.
  const used = yield* Effect.filter(
    Array.from(usesOf(recent).values(), ({ fullName }) => fullName).filter((name) => !seen.has(name.toLowerCase())),
    (name) => source === null ? Effect.succeed(true) : Effect.map(source.refusal([name]), (refusal) => refusal === null),
    { concurrency: "unbounded" }
  )
  return { names: pageOfNames([...listed ?? [], ...used], { ...query, limit }), isSilent: listed === null }
})

/** Empty: the service cannot say now. */
const hostOf = (source: Services["source"], name: RepoName) =>
  source === null ? Effect.succeed(LOCAL) : Effect.orElseSucceed(source.nameOf(name), () => "")

const page = Effect.fnUntraced(function*(services: Services, member: Page.Member, { url }: Page.Asked, draft: Draft, told: Html | null) {
  const search = (url.searchParams.get("search") ?? "").trim().slice(0, MAX_SEARCH)
  const from = url.searchParams.get("after")
  const after = from !== null && isName(from) ? from : null
  const { machine, people, source } = services
  const recent = yield* services.dashboard.recent(member.visit.place.grantId)
  const { isSilent, names } = yield* namesOf(services, recent, { search, after })
  const mayChange = machine !== null && (yield* isServiceOwner(people, member))
  const folders = mayChange ? yield* machine.list : []
  const uses = usesOf(recent)
  const shown = names.slice(0, SHOWN)
  const rows = yield* Effect.forEach(
    shown,
    (fullName) =>
      Effect.map(Effect.all([services.branchOf(fullName), hostOf(source, fullName)]), ([branch, host]): Row => ({
        fullName,
        host,
        branch,
        use: uses.get(fullName.toLowerCase()),
        machine: folders.find((one) => sameRepo(one.fullName, fullName)),
        mayChoose: member.visit.place.role === "owner"
      })),
    { concurrency: AT_A_TIME }
  )
  const last = names.length > SHOWN ? shown.at(-1) : undefined
  const rest = last !== undefined &&
    html`<p><a href="/repositories?${new URLSearchParams({ search, after: last }).toString()}">Show more</a></p>`
  const none = search === "" && after === null ? html`<p>No repositories yet.</p>` : html`<p>No repository found.</p>`
  const table = html`<table class="rows"><caption class="unseen">Repositories for sandboxes</caption>
<thead><tr>${columnHeads("Name", "Host", "Default branch", "Last used", "Sandboxes")}<td></td></tr></thead>
<tbody>${rows.map(rowOf)}
</tbody></table>
<p class="fine">Uses are counted among the newest ${RECENT} sandboxes of your grant.</p>`
  const body = html`<h1>Repositories</h1>
${told}
${isSilent && html`<p class="warning">The source host does not answer. Its repositories are missing here.</p>`}
${(search !== "" || after !== null || last !== undefined) && searchForm(search)}
${rows.length === 0 ? none : table}
${rest}
${mayChange ? addForm(member.csrf, draft) : elsewhere(source?.names ?? [])}`
  return Page.show({ title: "Repositories", place: "repositories", body }, member, {
    status: draft.problem === null ? 200 : 400
  })
})

/** The folders, for an owner of the service alone. */
const changing = Effect.fnUntraced(function*({ machine, people }: Services, member: Page.Member) {
  if (!(yield* isServiceOwner(people, member))) return yield* notTheirs
  return machine ?? (yield* notHere)
})

const add = (services: Services): Handler =>
  Effect.fnUntraced(function*(member, asked) {
    const machine = yield* changing(services, member)
    const name = (yield* asked.form.one("name")).trim()
    const folder = (yield* asked.form.one("folder")).trim()
    const fault = faultOf(folder)
    const again = (field: "name" | "folder", text: string) => {
      // An address may have a password in it, also where a name belongs.
      const draft = { name: isName(name) ? name : "", folder: fault === null ? folder : "", problem: { field, text } }
      return page(services, member, asked, draft, null)
    }
    if (!isName(name)) return yield* again("name", "Write the name as owner/name.")
    if (fault !== null) return yield* again("folder", fault)
    if ((yield* machine.list).some(({ fullName }) => sameRepo(fullName, name))) {
      return yield* again("name", `${name} is on the list already. Remove it first to change its folder.`)
    }
    return yield* machine.add(name, folder).pipe(
      Effect.as(Page.redirect("/repositories?done=added")),
      Effect.catchTag("UnusableFolder", ({ text }) => again("folder", text))
    )
  })

/** The repository on the list that a text names. */
const onList = Effect.fnUntraced(function*(machine: typeof MachineRepositories.Service, name: string) {
  return (yield* machine.list).find(({ fullName }) => isName(name) && sameRepo(fullName, name)) ?? (yield* unknown)
})

const askToRemove = (services: Services): Handler =>
  Effect.fnUntraced(function*(member, { url }) {
    const machine = yield* changing(services, member)
    const { fullName, path } = yield* onList(machine, url.searchParams.get("name") ?? "")
    const body = html`<h1>Remove ${fullName}?</h1>
<p>New sandboxes can't start from it, and sandboxes that have it can't publish. Its folder <code>${path}</code> is not changed. You can add
it again.</p>
<div class="actions">
<form method="post" action="/repositories/remove">${member.csrf}<input type="hidden" name="name" value="${fullName}">
<button class="danger">Remove repository</button></form>
<a class="button quiet" href="/repositories">Cancel</a>
</div>`
    return Page.show({ title: `Remove ${fullName}`, place: "repositories", body }, member)
  })

const remove = (services: Services): Handler =>
  Effect.fnUntraced(function*(member, { form }) {
    const machine = yield* changing(services, member)
    const { fullName } = yield* onList(machine, yield* form.one("name"))
    if (!(yield* machine.remove(fullName))) return yield* unknown
    return Page.redirect("/repositories?done=removed")
  })

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const pages = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const source = Option.getOrNull(yield* Effect.serviceOption(SourceHost))
  // Hosts limit requests, and default branches rarely change.
  const branches = yield* Cache.makeWith(
    (name: RepoName) =>
      source === null ? Effect.succeed(null) : source.repository(name).pipe(
        Effect.map(({ defaultBranch }: Repository): string | null => defaultBranch),
        Effect.timeout(PATIENCE),
        Effect.catch(() => Effect.succeed(null))
      ),
    { capacity: 1_000, timeToLive: (exit) => Exit.isSuccess(exit) && exit.value !== null ? "10 minutes" : "1 minute" }
  )
  const services: Services = {
    dashboard: yield* SandboxDashboard,
    people: yield* MemberStore,
    source,
    machine: Option.getOrNull(yield* Effect.serviceOption(MachineRepositories)),
    branchOf: (name) => Cache.get(branches, name)
  }
  const show: Handler = (member, asked) => page(services, member, asked, EMPTY, Page.told(asked, MESSAGES))
  yield* pages.members("/repositories", { GET: show, POST: add(services) })
  yield* pages.members("/repositories/remove", { GET: askToRemove(services), POST: remove(services) })
}))
