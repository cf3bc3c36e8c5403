/** `/repositories/settings`: where owners of a grant choose what pull requests and agents of a repository get. */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { RepositorySettings } from "@slipway/domain/source/ports/RepositorySettings"
import type { BranchRule } from "@slipway/domain/source/schema/BranchRules"
import { MAX_ROUNDS } from "@slipway/domain/source/schema/FeedbackPolicy"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { MAX_LABELS, MAX_REVIEWERS, RepoSettings } from "@slipway/domain/source/schema/RepoSettings"
import { DateTime, Effect, Schema } from "effect"
import { HttpRouter } from "effect/http"
import { html, type Html } from "../html/Html.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"

type Handler = Page.Handler<Page.Member>

const MESSAGES = { saved: "Settings saved." }

const notTheirs = new Refused({ status: 403, title: "Settings are for owners", text: "Ask an owner of your organization." })
const revoked = new Refused({ status: 409, title: "The grant is revoked", text: "Nothing changed. Choose another grant." })

const forOwners = (handler: Handler): Handler => (member, asked) =>
  member.visit.place.role === "owner" ? handler(member, asked) : Effect.fail(notTheirs)

const decode = Schema.decodeUnknownResult(RepoSettings)
const isName = Schema.is(RepoName)

/** One name a line. */
const namesOf = (text: string): ReadonlyArray<string> => text.split(/\r?\n/u).map((line) => line.trim()).filter((line) => line !== "")

const COMMENTS: Readonly<Record<RepoSettings["feedback"]["comments"], string>> = {
  off: "None",
  mention: "Those that name @slipway",
  all: "All"
}
const CHECKS: Readonly<Record<RepoSettings["feedback"]["checks"], string>> = { off: "None", failing: "Failing ones" }

const choice = (name: string, label: string, values: Readonly<Record<string, string>>, chosen: string): Html => {
  const options = Object.entries(values).map(([value, text]) =>
    html`<option value="${value}"${value === chosen && html` selected`}>${text}</option>
`
  )
  return html`<div class="field">
<label for="${name}">${label}</label>
<select id="${name}" name="${name}">
${options}</select>
</div>
`
}

const box = (name: string, label: string, isOn: boolean): Html =>
  html`<div class="field"><label><input type="checkbox" name="${name}" value="on"${isOn && html` checked`}> ${label}</label></div>
`

const listField = (name: string, label: string, hint: string, names: ReadonlyArray<string>): Html => {
  const lines = names.join("\n")
  return html`<div class="field">
<label for="${name}">${label}</label>
<textarea id="${name}" name="${name}" rows="3" autocapitalize="none" spellcheck="false" aria-describedby="${name}-hint">${lines}</textarea>
<p class="hint" id="${name}-hint">${hint}</p>
</div>
`
}

const form = (csrf: Html, repo: RepoName, { coAuthor, feedback, labels, mcpFile, reviewers }: RepoSettings, problem: string | null): Html =>
  html`<form method="post" action="/repositories/settings" class="panel" autocomplete="off">
${csrf}<input type="hidden" name="name" value="${repo}">
${problem !== null && html`<p class="problem" role="alert" id="problem">${problem}</p>`}
${listField("labels", "Labels", `One a line, up to ${MAX_LABELS}. New pull requests get those that the repository has.`, labels)}
${listField("reviewers", "Reviewers", `One a line, up to ${MAX_REVIEWERS}: a login, or organization/team.`, reviewers)}
${box("co_author", "Name the sandbox's creator as co-author of commits", coAuthor)}
<h2>Feedback</h2>
<p>What the sandbox of a pull request gets as its next message.</p>
${choice("comments", "Comments and reviews", COMMENTS, feedback.comments)}
${choice("checks", "Checks", CHECKS, feedback.checks)}
<div class="field">
<label for="rounds">Rounds</label>
<input id="rounds" name="rounds" type="number" required min="1" max="${MAX_ROUNDS}" value="${feedback.rounds}" aria-describedby="round">
<p class="hint" id="round">After so many rounds without a person's word, feedback pauses.</p>
</div>
${box("publish", "Publish a round that succeeded", feedback.publish)}
<h2>MCP servers</h2>
<p>People who may push to the repository then choose commands that run in its sandboxes, as its setup does.</p>
${box("mcp_file", "Give agents the servers of .mcp.json that are commands", mcpFile)}
<button>Save settings</button>
</form>`

/** The branches that sandboxes of the grant may continue and push to. Only the operator's command changes them. */
const branches = (rules: ReadonlyArray<BranchRule>, grant: string): Html => {
  const items = rules.map((rule) =>
    html`<li><code>${rule}</code></li>
`
  )
  const list = html`<p>Sandboxes can continue and push to these branches, but never to the default branch or a protected branch:</p>
<ul>
${items}</ul>`
  return html`<section class="panel" aria-labelledby="branches">
<h2 id="branches">Branches</h2>
${rules.length === 0 ? html`<p>Sandboxes can't continue branches or pull requests.</p>` : list}
<p class="hint">The service's operator changes them with <code>slipway grants branches ${grant}</code>.</p>
</section>`
}

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const store = yield* RepositorySettings
  const access = yield* AccessStore

  const page = Effect.fnUntraced(function*(
    member: Page.Member,
    repo: RepoName,
    settings: RepoSettings,
    told: Html | null,
    problem: string | null
  ) {
    const { grantId } = member.visit.place
    const rules = yield* access.branchRules(grantId)
    const body = html`<h1>Settings of ${repo}</h1>
${told}
${form(member.csrf, repo, settings, problem)}
${branches(rules, grantId)}
<p class="fine"><a href="/repositories">All repositories</a></p>`
    return Page.show({ title: `Settings of ${repo}`, place: "repositories", body }, member, { status: problem === null ? 200 : 400 })
  })

  const show: Handler = Effect.fnUntraced(function*(member, asked) {
    const repo = asked.url.searchParams.get("name") ?? ""
    if (!isName(repo)) return yield* Refused.notFound("Repository not found.")
    const settings = yield* store.of({ grantId: member.visit.place.grantId, repo })
    return yield* page(member, repo, settings, Page.told(asked, MESSAGES), null)
  })

  const save: Handler = Effect.fnUntraced(function*(member, { form }) {
    const repo = yield* form.one("name")
    if (!isName(repo)) return yield* Refused.notFound("Repository not found.")
    const of = { grantId: member.visit.place.grantId, repo }
    const decoded = decode({
      labels: namesOf(yield* form.one("labels")),
      reviewers: namesOf(yield* form.one("reviewers")),
      coAuthor: (yield* form.maybe("co_author")) !== null,
      feedback: {
        comments: yield* form.one("comments"),
        checks: yield* form.one("checks"),
        rounds: Number(yield* form.one("rounds")),
        publish: (yield* form.maybe("publish")) !== null
      },
      mcpFile: (yield* form.maybe("mcp_file")) !== null
    })
    if (decoded._tag === "Failure") {
      return yield* page(
        member,
        repo,
        yield* store.of(of),
        null,
        "Nothing changed. A label has up to 50 characters; a reviewer is a login or organization/team; no name is there twice."
      )
    }
    return yield* store.set(of, decoded.success, yield* DateTime.now).pipe(
      Effect.as(Page.redirect(`/repositories/settings?${new URLSearchParams({ name: repo, done: "saved" }).toString()}`)),
      Effect.catchTag(
        "SettingsRefused",
        ({ message, reason }) =>
          Effect.fail(reason === "grant" ? revoked : new Refused({ status: 409, title: "Too many settings", text: message }))
      )
    )
  })

  yield* members("/repositories/settings", { GET: forOwners(show), POST: forOwners(save) })
}))
