/** `/secrets`: where owners set secrets of repositories and list the refs that get them (docs/decisions/17). Values are never shown. */
import {
  ALL_REPOSITORIES,
  type SecretRecord,
  SHORTEST_REDACTED,
  type TrustedRefRecord
} from "@slipway/domain/environment/ports/SecretStore"
import { Secrets } from "@slipway/domain/environment/usecases/Secrets"
import { sameRepo } from "@slipway/domain/source/schema/Naming"
import { Effect, Redacted } from "effect"
import { HttpRouter } from "effect/http"
import { columnHeads, html, type Html } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"

type Handler = Page.Handler<Page.Member>

const MESSAGES = {
  set: "Secret saved. Sandboxes that start from now on have it during setup.",
  removed: "Secret removed. Sandboxes that need it will fail to start.",
  trusted: "Branch or tag added. Its setups have the secrets of the repository from now on.",
  distrusted: "Branch or tag removed. Its setups run without secrets from now on."
}

/** The content of the form. The value is never sent back. */
interface Draft {
  readonly repo: string
  readonly name: string
  /** Why it was refused. */
  readonly problem: string | null
}

const noSecret = Refused.notFound("Secret not found.")

const revoked = new Refused({ status: 409, title: "The grant is revoked", text: "Nothing changed. Choose another grant." })

const notTheirs = new Refused({
  status: 403,
  title: "Secrets are for owners",
  text: "Ask an owner of your organization."
})

/** Admits owners; others do not learn whether there are any secrets. */
const forOwners = (handler: Handler): Handler => (member, asked) =>
  member.visit.place.role === "owner" ? handler(member, asked) : Effect.fail(notTheirs)

/** For people. */
const placeOf = (repo: string): string => repo === ALL_REPOSITORIES ? "all repositories" : repo

const removal = ({ name, repo }: SecretRecord): string => `/secrets/remove?${new URLSearchParams({ repo, name }).toString()}`

const row = (secret: SecretRecord): Html =>
  html`
<tr>
<th scope="row"><code>${secret.name}</code></th>
<td data-label="Repository">${placeOf(secret.repo)}</td>
<td data-label="Updated">${moment(secret.setAt)}</td>
<td data-label="Created">${moment(secret.createdAt)}</td>
<td><a href="${removal(secret)}" aria-label="Remove ${secret.name} of ${placeOf(secret.repo)}">Remove</a></td>
</tr>`

const setForm = (csrf: Html, { name, problem, repo }: Draft): Html => {
  const invalid = problem !== null && html` aria-errormessage="problem"`
  return html`<form method="post" action="/secrets" class="panel" aria-labelledby="set" autocomplete="off">
<h2 id="set">Set a secret</h2>
${csrf}
${problem !== null && html`<p class="problem" role="alert" id="problem">${problem}</p>`}
<div class="field">
<label for="repo">Repository</label>
<input id="repo" name="repo" value="${repo}" required autocapitalize="none" spellcheck="false" placeholder="owner/name"
aria-describedby="repo-hint"${invalid}>
<p class="hint" id="repo-hint"><code>*</code> means all repositories of the grant. Each of them can name the secret in its environment
file.</p>
</div>
<div class="field">
<label for="name">Name</label>
<input id="name" name="name" value="${name}" required autocapitalize="characters" spellcheck="false" placeholder="NPM_TOKEN"
aria-describedby="name-hint"${invalid}>
<p class="hint" id="name-hint">Name of the variable: capital letters, digits and _. An existing secret gets the new value.</p>
</div>
<div class="field">
<label for="value">Value</label>
<textarea id="value" name="value" required rows="3" autocapitalize="none" spellcheck="false"
aria-describedby="value-hint"${invalid}></textarea>
<p class="hint" id="value-hint">Stored encrypted and never shown again. A value with fewer than ${SHORTEST_REDACTED} characters
is not removed from the output of setups. For files and values above 20 KB: <code>slipway secrets set</code>.</p>
</div>
<button>Set secret</button>
</form>`
}

/** The content of the form of refs. */
interface RefDraft {
  readonly repo: string
  readonly ref: string
  readonly problem: string | null
}

const refRow = (csrf: Html, { listedAt, ref, repo }: TrustedRefRecord): Html =>
  html`
<tr>
<th scope="row"><code>${ref}</code></th>
<td data-label="Repository">${repo}</td>
<td data-label="Listed">${moment(listedAt)}</td>
<td><form method="post" action="/secrets/refs/remove">${csrf}<input type="hidden" name="repo" value="${repo}">
<input type="hidden" name="ref" value="${ref}"><button class="quiet" aria-label="Remove ${ref} of ${repo}">Remove</button></form></td>
</tr>`

/** The branches whose setups have secrets, beside the default ones. */
const refsSection = (csrf: Html, refs: ReadonlyArray<TrustedRefRecord>, { problem, ref, repo }: RefDraft): Html => {
  const invalid = problem !== null && html` aria-errormessage="ref-problem"`
  const table = html`<table class="rows"><caption class="unseen">Branches and tags with secrets, by repository</caption>
<thead><tr>${columnHeads("Ref", "Repository", "Listed")}<td></td></tr></thead>
<tbody>${refs.map((one) => refRow(csrf, one))}
</tbody></table>`
  return html`<h2>Branches with secrets</h2>
<p>Setups of the default branch have secrets. Those of other branches and tags have them if they are listed here. People who may push to
one of them can read the secrets; branches of sandboxes cannot be listed.</p>
${refs.length > 0 && table}
<form method="post" action="/secrets/refs" class="panel" aria-labelledby="list-ref" autocomplete="off">
<h2 id="list-ref">Add a branch or a tag</h2>
${csrf}
${problem !== null && html`<p class="problem" role="alert" id="ref-problem">${problem}</p>`}
<div class="field">
<label for="ref-repo">Repository</label>
<input id="ref-repo" name="repo" value="${repo}" required autocapitalize="none" spellcheck="false" placeholder="owner/name"${invalid}>
</div>
<div class="field">
<label for="ref">Branch or tag</label>
<input id="ref" name="ref" value="${ref}" required autocapitalize="none" spellcheck="false" placeholder="release/*"${invalid}>
</div>
<button>Add</button>
</form>`
}

const NO_REF: RefDraft = { repo: "", ref: "", problem: null }
const NO_SECRET: Draft = { repo: "", name: "", problem: null }

/** Names of fields for people: a refusal has those for programs. */
const WORDS: Readonly<Record<string, string>> = { repo: "The repository", name: "The name", value: "The value", ref: "The ref" }

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const secrets = yield* Secrets

  const page = Effect.fnUntraced(function*(member: Page.Member, told: Html | null, draft: Draft, status: number, refDraft = NO_REF) {
    const all = yield* secrets.list(member.visit.place.grantId, null)
    const refs = yield* secrets.trustedRefs(member.visit.place.grantId, null)
    const table = html`<table class="rows"><caption class="unseen">Secrets, by repository</caption>
<thead><tr>${columnHeads("Name", "Repository", "Updated", "Created")}<td></td></tr></thead>
<tbody>${all.map(row)}
</tbody></table>`
    const body = html`<h1>Secrets</h1>
${told}
<p>The setup of a repository's sandboxes gets the secrets that its environment names, as environment variables: the token of a
private registry, say. The agent does not get them.</p>
${all.length === 0 ? html`<p>No secrets yet.</p>` : table}
${setForm(member.csrf, draft)}
${refsSection(member.csrf, refs, refDraft)}`
    return Page.show({ title: "Secrets", place: "secrets", body }, member, { status })
  })

  const show: Handler = (member, asked) =>
    page(member, Page.told(asked, MESSAGES), { repo: asked.url.searchParams.get("repo") ?? "", name: "", problem: null }, 200)

  const set: Handler = Effect.fnUntraced(function*(member, { form }) {
    const repo = (yield* form.one("repo")).trim()
    const name = (yield* form.one("name")).trim()
    // Browsers write each line break of a form as two characters (HTML, "normalize newlines").
    const value = Redacted.make((yield* form.one("value")).replaceAll("\r\n", "\n"))
    const again = (problem: string, status: number) => page(member, null, { repo, name, problem }, status)
    return yield* secrets.set({ grantId: member.visit.place.grantId, repo, name }, value).pipe(
      Effect.as(Page.redirect("/secrets?done=set")),
      Effect.catchTags({
        InvalidRequest: ({ field, reason }) => again(`${WORDS[field] ?? "This"} cannot be used: ${reason}.`, 400),
        TooManySecrets: ({ message }) => again(`${message} Remove one first.`, 409),
        GrantNotFound: () => Effect.fail(revoked),
        SecretsUnusable: ({ problem }) =>
          Effect.andThen(
            Effect.logError("secrets cannot be set", { problem }),
            new Refused({
              status: 503,
              title: "Secrets cannot be set now",
              text: "Nothing changed. The service has no usable key to encrypt with: its log says what an administrator can do."
            })
          )
      })
    )
  })

  /** The secret that an address or a form names. */
  const find = Effect.fnUntraced(function*({ visit }: Page.Member, repo: string, name: string) {
    const found = (yield* secrets.list(visit.place.grantId, repo)).find((secret) => secret.name === name && sameRepo(secret.repo, repo))
    return found ?? (yield* noSecret)
  })

  const askToRemove: Handler = Effect.fnUntraced(function*(member, { url }) {
    const { name, repo } = yield* find(member, url.searchParams.get("repo") ?? "", url.searchParams.get("name") ?? "")
    const body = html`<h1>Remove <code>${name}</code>?</h1>
<p>The secret <code>${name}</code> of ${placeOf(repo)} is deleted permanently. Sandboxes that need it will fail to start.</p>
<div class="actions">
<form method="post" action="/secrets/remove">${member.csrf}<input type="hidden" name="repo" value="${repo}">
<input type="hidden" name="name" value="${name}"><button class="danger">Remove secret</button></form>
<a class="button quiet" href="/secrets">Cancel</a>
</div>`
    return Page.show({ title: `Remove ${name}?`, place: "secrets", body }, member)
  })

  const remove: Handler = Effect.fnUntraced(function*(member, { form }) {
    yield* secrets.remove({ grantId: member.visit.place.grantId, repo: yield* form.one("repo"), name: yield* form.one("name") })
    return Page.redirect("/secrets?done=removed")
  }, Effect.catchTag("SecretNotFound", () => Effect.fail(noSecret)))

  const trust: Handler = Effect.fnUntraced(function*(member, { form }) {
    const repo = (yield* form.one("repo")).trim()
    const ref = (yield* form.one("ref")).trim()
    const again = (problem: string, status: number) => page(member, null, NO_SECRET, status, { repo, ref, problem })
    return yield* secrets.trustRef({ grantId: member.visit.place.grantId, repo, ref }).pipe(
      Effect.as(Page.redirect("/secrets?done=trusted")),
      Effect.catchTags({
        InvalidRequest: ({ field, reason }) => again(`${WORDS[field] ?? "This"} cannot be used: ${reason}.`, 400),
        TooManyTrustedRefs: ({ message }) => again(`${message} Remove one first.`, 409),
        GrantNotFound: () => Effect.fail(revoked)
      })
    )
  })

  const distrust: Handler = Effect.fnUntraced(function*(member, { form }) {
    yield* secrets.distrustRef({ grantId: member.visit.place.grantId, repo: yield* form.one("repo"), ref: yield* form.one("ref") })
    return Page.redirect("/secrets?done=distrusted")
  }, Effect.catchTag("TrustedRefNotFound", ({ message }) => Effect.fail(Refused.notFound(message))))

  yield* members("/secrets/refs", { POST: forOwners(trust) })
  yield* members("/secrets/refs/remove", { POST: forOwners(distrust) })
  yield* members("/secrets", { GET: forOwners(show), POST: forOwners(set) })
  yield* members("/secrets/remove", { GET: forOwners(askToRemove), POST: forOwners(remove) })
}))
