/** `/new`: what somebody asks of a new sandbox. It comes back with what was typed when something is wrong with it. */
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { Role } from "@slipway/domain/access/rules/User"
import { Ids } from "@slipway/domain/ids/Ids"
import { type Catalogue, type Model, ModelCatalogue } from "@slipway/domain/models/schema/ModelCatalogue"
import { ReasoningEffort } from "@slipway/domain/models/schema/ReasoningEffort"
import { SandboxDashboard, lastChoice, ownersOf, repositoriesOf } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import * as Requests from "@slipway/domain/sandbox/usecases/Requests"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { Ref, RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect, Option, Schema } from "effect"
import { html, type Html } from "../../html/Html.ts"
import { type Form, incomplete } from "../../layout/Form.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import { MachineRepositories } from "../../repositories/MachineRepositories.ts"
import { notTheirs } from "../../repositories/RepositoriesPage.ts"
import * as FileNames from "../../shared/FileNames.ts"
import { isServiceOwner } from "../../shared/ServiceOwners.ts"
import * as ContinueFields from "./ContinueFields.ts"
import * as InputFields from "./InputFields.ts"

const isRepo = Schema.is(RepoName)
const isRef = Schema.is(Ref)

/** Rows for repositories that a page has, at least. */
const ROWS = 4
/** As many as a sandbox may have. */
const MAX_ROWS = 16
/** Repositories that are suggested at once. */
const SUGGESTED = 100
/** The page does not wait longer for a source host's list. */
const PATIENCE = "1500 millis"

/** The content of the form, as typed. */
interface Draft {
  readonly prompt: string
  readonly repos: ReadonlyArray<{ readonly name: string; readonly ref: string }>
  readonly continued: ContinueFields.ContinueDraft
  readonly inputs: InputFields.InputDraft
  readonly model: string
  /** Empty: the model's own. */
  readonly effort: string
  readonly approvals: string
}

type Field = "prompt" | "repos" | "pull" | "branch" | "budget" | "variables" | "model" | "effort" | "approvals"

/** A fault of a draft. */
interface Problem {
  readonly status: 400 | 403 | 409
  /** `null`: nothing that can be mended by typing. */
  readonly field: Field | null
  /** Which row of repositories, from 0. */
  readonly row: number | null
  readonly text: string
}

const NAMES: Readonly<Record<Field, string>> = {
  prompt: "Task",
  repos: "Repository",
  pull: "Pull request",
  branch: "Branch to continue",
  budget: "Budget",
  variables: "Variables",
  model: "Model",
  effort: "Effort",
  approvals: "Approvals"
}

const modelsOf = ({ models }: Catalogue): ReadonlyArray<Model> => models.slice(0, 500)

/** Everything a form of ours sends, however little of it there is. */
const read = Effect.fnUntraced(function*(form: Form): Effect.fn.Return<Draft & { readonly key: string }, Refused> {
  const [names, refs] = [form.all("repo"), form.all("ref")]
  if (names.length !== refs.length || names.length > MAX_ROWS) return yield* Refused.bad(`Each repository once, up to ${MAX_ROWS}.`)
  return {
    key: yield* form.one("key"),
    // Browsers send the line ends of the web's forms.
    prompt: (yield* form.one("prompt")).replaceAll("\r\n", "\n"),
    repos: names.map((name, i) => ({ name: name.trim(), ref: (refs[i] ?? "").trim() })),
    continued: {
      pull: ((yield* form.maybe("pull")) ?? "").trim(),
      branch: ((yield* form.maybe("continue")) ?? "").trim()
    },
    inputs: {
      budget: ((yield* form.maybe("budget")) ?? "").trim(),
      variables: ((yield* form.maybe("variables")) ?? "").replaceAll("\r\n", "\n")
    },
    model: yield* form.one("model"),
    effort: (yield* form.maybe("effort")) ?? "",
    approvals: yield* form.one("approvals")
  }
})

/** A fault of a request, in the words of the page. `rows`: the row in which each of the request's repositories was typed. */
const problemOf = (field: string, reason: string, rows: ReadonlyArray<number>): Problem => {
  const at = (field: Field, text: string, row: number | null = null): Problem => ({ status: 400, field, row, text })
  const [, index, part] = /^repos\[(\d+)\]\.(\w+)/u.exec(field) ?? []
  if (index !== undefined) {
    return at(
      "repos",
      part === "ref" ? "Enter a branch, a tag or a full commit SHA." : "Write the repository as owner/name.",
      rows[Number(index)] ?? null
    )
  }
  if (field === "repos") {
    return at("repos", rows.length === 0 ? "Choose at least one repository." : `Each repository once, up to ${MAX_ROWS}.`)
  }
  if (field === "continue.pullRequest") return at("pull", "Enter the number of a pull request, such as #12.")
  if (field === "continue.branch") return at("branch", "Enter the name of a branch.")
  if (field === "budgetMicroUsd") return at("budget", InputFields.BUDGET_FAULT)
  if (field === "environment" || field.startsWith("environment.")) return at("variables", InputFields.faultOfName(field, reason))
  if (field === "prompt") return at("prompt", "Describe the task (up to 60,000 characters).")
  if (field === "model") return at("model", "Choose a model from the list.")
  if (field === "reasoningEffort") return at("effort", "Choose an effort from the list.")
  if (field === "toolApprovalMode") return at("approvals", "Choose an approval mode.")
  return { status: 400, field: null, row: null, text: `${field}: ${reason}` }
}

const describedBy = (problem: Problem | null, field: Field, row: number | null = null, hint: string | null = null): Html => {
  const isIt = problem?.field === field && (problem.row ?? 0) === (row ?? 0)
  const ids = [...(isIt ? ["compose-problem"] : []), ...(hint === null ? [] : [hint])]
  return html`${isIt && html` aria-invalid="true"`}${ids.length > 0 && html` aria-describedby="${ids.join(" ")}"`}`
}

const rowOf = ({ name, ref }: Draft["repos"][number], i: number, problem: Problem | null): Html => {
  const number = i === 0 ? "" : ` ${i + 1}`
  return html`<div class="field"><label for="repo-${i}">Repository${number}</label>
<input id="repo-${i}" name="repo" list="repositories" value="${name}" placeholder="owner/name" autocomplete="off" autocapitalize="none"
spellcheck="false" maxlength="201"${i === 0 && html` required`}${describedBy(problem, "repos", i)}></div>
<div class="field"><label for="ref-${i}">Branch${number}</label>
<input id="ref-${i}" name="ref" value="${ref}" placeholder="default branch" autocomplete="off" autocapitalize="none" spellcheck="false"
maxlength="255"></div>
`
}

const effortsOf = (models: ReadonlyArray<Model>) =>
  ReasoningEffort.literals.filter((effort) => models.some(({ efforts }) => efforts.includes(effort)))

const option = (value: string, text: string, chosen: string, more: Html | null = null): Html =>
  html`<option value="${value}"${value === chosen && html` selected`}${more}>${text}</option>
`

const optionsOf = (names: ReadonlyArray<string>): ReadonlyArray<Html> =>
  names.map((name) =>
    html`<option value="${name}"></option>
`
  )

interface Shown {
  readonly draft: Draft
  readonly problem: Problem | null
  /** The idempotency key of this form: sent twice, it makes one sandbox. */
  readonly key: string
  readonly suggested: ReadonlyArray<string>
  readonly catalogue: Catalogue
}

const alertOf = ({ field, text }: Problem): Html => {
  const name = field !== null && html`<strong>${NAMES[field]}:</strong> `
  return html`<p class="problem" role="alert" id="compose-problem">${name}${text}</p>`
}

const APPROVALS = { auto: "Don't ask", prompt: "Ask first" }

/** The selects of model, effort and approvals. */
const optionsFor = ({ catalogue, draft, problem }: Pick<Shown, "catalogue" | "draft" | "problem">): Html => {
  const models = modelsOf(catalogue)
  const efforts = effortsOf(models)
  const list = models.map(({ approvals, efforts, id }) => {
    const more = html` data-efforts="${efforts.join(" ")}" data-approvals="${approvals ? "yes" : "no"}"`
    return option(id, id, draft.model, more)
  })
  const effort = efforts.length > 0 && html`<div class="field"><label for="compose-effort">Effort</label>
<select id="compose-effort" name="effort"${describedBy(problem, "effort")}>
${option("", "Default", draft.effort)}${efforts.map((effort) => option(effort, effort, draft.effort))}</select></div>`
  return html`<div class="field"><label for="compose-model">Model</label>
<select id="compose-model" name="model"${describedBy(problem, "model")}>
${list}</select></div>
${effort}
<div class="field"><label for="compose-approvals">Approvals</label>
<select id="compose-approvals" name="approvals"${describedBy(problem, "approvals")}>
${option("auto", APPROVALS.auto, draft.approvals)}${option("prompt", APPROVALS.prompt, draft.approvals)}</select></div>`
}

/** Shown as long as no model of a provider can be used. */
const demoHint = ({ models }: Catalogue, role: Role): Html | false =>
  models.every(({ offline }) => offline) && html`<p class="hint">The demo model follows scripts such as <code>[[say Hello]]</code>.
${role === "owner" ? html`<a href="/models">Connect a real model</a>` : "An owner can connect a real model."}</p>`

const form = (shown: Shown, { csrf, visit }: Page.Member): Html => {
  const { draft, key, problem, suggested } = shown
  const count = Math.min(MAX_ROWS, Math.max(ROWS, draft.repos.length))
  const rows = Array.from({ length: count }, (_, i) => rowOf(draft.repos[i] ?? { name: "", ref: "" }, i, problem))
  const more = draft.repos.slice(1).some(({ name, ref }) => name !== "" || ref !== "") || (problem?.row ?? 0) > 0
  // Whose draft a browser keeps.
  const kept = html`data-draft="${`${visit.place.grantId} ${visit.user.id}`}"${problem !== null && html` data-refused`}`
  const described = describedBy(problem, "prompt")
  return html`<form method="post" action="/new" class="compose" id="compose" ${kept}>${csrf}
<input type="hidden" name="key" value="${key}">
${problem !== null && alertOf(problem)}
<div class="field"><label for="compose-prompt">What should the agent do?</label>
<textarea id="compose-prompt" name="prompt" required maxlength="60000" rows="4" data-names="/new/files"${described}>
${draft.prompt}</textarea>
${demoHint(shown.catalogue, visit.place.role)}</div>
<div class="compose-line">
${rows.slice(0, 1)}
${optionsFor(shown)}
</div>
<datalist id="repositories">
${optionsOf(suggested)}</datalist>
<div class="compose-end">
<details${more && html` open`}><summary>More repositories</summary>
<div class="compose-line">
${rows.slice(1)}</div>
<p class="hint">Not there? <a href="/repositories">All repositories</a></p></details>
${ContinueFields.render(draft.continued, (field, hint) => describedBy(problem, field, null, hint))}
${InputFields.render(draft.inputs, (field, hint) => describedBy(problem, field, null, hint))}
<button>Start</button>
</div>
</form>`
}

const OWNERS_ADD = html`<p>Ask an owner of the organization that runs this service to add one.</p>`

/** Shown as long as the service has no repository. */
const starters = (csrf: Html, isOwner: boolean): Html => {
  const sample = html`<form method="post" action="/new/sample">${csrf}<button class="quiet">Try the sample repository</button></form>
`
  return html`<section class="panel" aria-labelledby="starters">
<h2 id="starters">No repositories yet</h2>
${isOwner ? html`<div class="actions">${sample}<a class="button quiet" href="/repositories">Add a repository</a></div>` : OWNERS_ADD}
</section>`
}

const creationOf = (draft: Draft, repos: Draft["repos"]) =>
  Requests.creation({
    ...ContinueFields.requestOf(draft.continued, repos[0]?.name ?? ""),
    ...InputFields.requestOf(draft.inputs),
    prompt: draft.prompt,
    repos: repos.map(({ name, ref }) => ({ fullName: name, ...(ref === "" ? {} : { ref }) })),
    ...(draft.model === "" ? {} : { model: draft.model }),
    ...(draft.effort === "" ? {} : { reasoningEffort: draft.effort }),
    toolApprovalMode: draft.approvals
  })

interface Services {
  readonly sandboxes: typeof Sandboxes.Service
  readonly dashboard: typeof SandboxDashboard.Service
  readonly ids: typeof Ids.Service
  readonly catalogue: typeof ModelCatalogue.Service
  /** `null`: the service has no source host. */
  readonly source: typeof SourceHost.Service | null
  readonly people: typeof MemberStore.Service
  readonly machine: typeof MachineRepositories.Service | null
}

type Recent = Effect.Success<ReturnType<SandboxDashboard["Service"]["recent"]>>

/** Suggested repositories: those of recent sandboxes, newest first, then those of the grant's accounts. A slow host adds none. */
const suggestions = Effect.fnUntraced(function*({ source }: Services, recent: Recent, search: string) {
  const part = search.toLowerCase()
  const known = repositoriesOf(recent).map(({ fullName }) => fullName).filter((name) => name.toLowerCase().includes(part))
  const query = { owners: [...ownersOf(recent)], search, after: null, limit: SUGGESTED }
  const listed = source === null ? [] : yield* source.repositories(query).pipe(
    Effect.timeout(PATIENCE),
    Effect.catch((error) => Effect.as(Effect.logDebug("the source host lists no repositories", error), []))
  )
  const seen = new Set(known.map((name) => name.toLowerCase()))
  return [...known, ...listed.filter((name) => !seen.has(name.toLowerCase()))].slice(0, SUGGESTED)
})

/** The first choices of a person in the form: as in that person's last sandbox, where the models still allow it. */
const remembered = (catalogue: typeof ModelCatalogue.Service, recent: Recent, userId: string): Draft => {
  const last = lastChoice(recent, userId)
  const models = modelsOf(catalogue)
  const chosen = models.find(({ id }) => id === last?.model) ?? models.find(({ id }) => id === catalogue.default) ?? models[0]
  const effort = last?.reasoningEffort ?? null
  return {
    prompt: "",
    repos: (last?.repos ?? []).map(({ fullName, ref = "" }) => ({ name: fullName, ref })),
    continued: ContinueFields.NO_CONTINUE,
    inputs: InputFields.NO_INPUTS,
    model: chosen?.id ?? "",
    effort: effort !== null && chosen?.efforts.includes(effort) === true ? effort : "",
    approvals: last?.toolApprovalMode === "prompt" && chosen?.approvals === true ? "prompt" : "auto"
  }
}

/** A form that comes back, and why. */
interface Given {
  readonly draft: Draft
  readonly problem: Problem
}

const composer = Effect.fnUntraced(function*(services: Services, member: Page.Member, given: Given | null) {
  const { catalogue, dashboard, ids } = services
  const recent = yield* dashboard.recent(member.visit.place.grantId)
  const suggested = yield* suggestions(services, recent, "")
  const first = remembered(catalogue, recent, member.visit.user.id)
  const [only, ...others] = suggested
  const repos = first.repos.length === 0 && only !== undefined && others.length === 0 ? [{ name: only, ref: "" }] : first.repos
  const shown = form({
    draft: given?.draft ?? { ...first, repos },
    problem: given?.problem ?? null,
    key: yield* ids.uuid7,
    suggested,
    catalogue
  }, member)
  const isEmpty = services.machine !== null && suggested.length === 0
  return html`${shown}${isEmpty && starters(member.csrf, yield* isServiceOwner(services.people, member))}`
})

const addSample = ({ machine, people }: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member) {
    if (machine === null) return yield* Refused.notFound("This service has no sample repository.")
    if (!(yield* isServiceOwner(people, member))) return yield* notTheirs
    yield* machine.addSample
    return Page.redirect("/sandboxes")
  })

const page = Effect.fnUntraced(function*(services: Services, member: Page.Member, given: Given | null) {
  const body = html`<h1>New sandbox</h1>
${yield* composer(services, member, given)}`
  return Page.show({ title: "New sandbox", place: "sandboxes", body, scripts: ["compose.js"] }, member, {
    status: given?.problem.status ?? 200
  })
})

const post = (services: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, asked) {
    const draft = yield* read(asked.form)
    const named = draft.repos.map((repo, row) => ({ ...repo, row })).filter(({ name, ref }) => name !== "" || ref !== "")
    const rows = named.map(({ row }) => row)
    const again = (problem: Problem) => page(services, member, { draft, problem })
    const wrong = (field: Field | null, text: string, status: Problem["status"] = 400) => again({ status, field, row: null, text })
    const { continued } = draft
    const fault = ContinueFields.faultOf(continued, named[0]?.ref ?? "") ?? InputFields.faultOf(draft.inputs)
    if (fault !== null) return yield* wrong(fault.field, fault.text)
    return yield* Effect.all([creationOf(draft, named), Requests.idempotencyKey(draft.key)]).pipe(
      Effect.flatMap(([request, key]) => services.sandboxes.create(principalOf(member.visit), request, key)),
      Effect.map(({ sandbox }) => Page.redirect(`/sandboxes/${sandbox.id}`)),
      Effect.catchTags({
        InvalidRequest: ({ field, reason }) =>
          field === "idempotency-key"
            ? Effect.fail(incomplete)
            : again(problemOf(field, reason, rows)),
        InvalidModel: ({ message }) => wrong("model", message),
        InvalidReasoningEffort: ({ message }) => wrong("effort", message),
        ApprovalsUnsupported: ({ model }) =>
          wrong("approvals", `${model} can't ask for approval. Choose another model or "${APPROVALS.auto}".`),
        RepoNotAccessible: ({ message, repo }) =>
          again({
            status: 403,
            field: "repos",
            row: named.find(({ name }) => name.toLowerCase() === repo.toLowerCase())?.row ?? null,
            text: `The ${message}${message.endsWith(".") ? "" : "."}`
          }),
        PullRequestNotWritable: ({ message }) => wrong(continued.pull === "" ? "branch" : "pull", message, 409),
        SourceUnreadable: ({ message }) => wrong(null, message, 409),
        IdempotencyConflict: () => wrong(null, "You already started a sandbox from this form. Submit again to start another.", 409),
        SandboxDeleted: () => wrong(null, "The sandbox from this form was deleted. Submit again to start another.", 409),
        ConcurrencyLimitExceeded: ({ message }) => wrong(null, message, 409),
        CreationDenied: ({ message }) => wrong(null, message, 403),
        BudgetExceeded: ({ message }) => wrong(null, message, 409),
        BudgetTooLarge: ({ limit }) => wrong("budget", InputFields.tooLarge(limit)),
        NoCredits: ({ message }) => wrong(null, message, 409)
      })
    )
  })

/** Suggestions for a typed name, for `compose.js`. */
const repositories = (services: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, { url }) {
    const search = (url.searchParams.get("search") ?? "").slice(0, 201)
    const found = yield* suggestions(services, yield* services.dashboard.recent(member.visit.place.grantId), search)
    return Page.fragment(html`${optionsOf(found)}`)
  })

/** The open pull requests of a typed repository, for `compose.js`. Only of repositories that the form suggests. */
const pulls = (services: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(member, { url }) {
    const repo = url.searchParams.get("repo") ?? ""
    if (services.source === null || !isRepo(repo)) return Page.fragment(html``)
    const recent = yield* services.dashboard.recent(member.visit.place.grantId)
    const name = (yield* suggestions(services, recent, repo)).find((one) => one.toLowerCase() === repo.toLowerCase())
    if (name === undefined) return Page.fragment(html``)
    return Page.fragment(html`${ContinueFields.optionsOf(yield* ContinueFields.pullsOf(services.source, name))}`)
  })

/** Names of files that complete a path in the task, of repositories of the service's machine. */
const files = ({ machine }: Services): Page.Handler<Page.Member> =>
  Effect.fnUntraced(function*(_, { url }) {
    const typed = FileNames.typedOf(url)
    const [repo, ref] = [url.searchParams.get("repo") ?? "", url.searchParams.get("ref") ?? ""]
    if (machine === null || typed === null || !isRepo(repo) || ref !== "" && !isRef(ref)) return Page.fragment(html``)
    return Page.fragment(FileNames.render(typed, yield* machine.names(repo, ref === "" ? null : ref, typed.folder)))
  })

export const make = Effect.gen(function*() {
  const services: Services = {
    sandboxes: yield* Sandboxes,
    dashboard: yield* SandboxDashboard,
    ids: yield* Ids,
    catalogue: yield* ModelCatalogue,
    source: Option.getOrNull(yield* Effect.serviceOption(SourceHost)),
    people: yield* MemberStore,
    machine: Option.getOrNull(yield* Effect.serviceOption(MachineRepositories))
  }
  const get: Page.Handler<Page.Member> = (member) => page(services, member, null)
  return {
    /** A new form, for other pages. */
    composer: (member: Page.Member) => composer(services, member, null),
    get,
    post: post(services),
    repositories: repositories(services),
    pulls: pulls(services),
    files: files(services),
    addSample: addSample(services)
  }
})
