/** `/models`: where the service's owners connect providers of models. Keys are never shown. */
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { providers } from "@slipway/domain/models/rules/ModelProviders"
import { ModelCatalogue, type ModelSetup } from "@slipway/domain/models/schema/ModelCatalogue"
import { type ModelProvider, ProviderName } from "@slipway/domain/models/schema/ModelProvider"
import { ModelProviders } from "@slipway/domain/models/usecases/ModelProviders"
import { Effect, Redacted, Schema } from "effect"
import { HttpRouter } from "effect/http"
import { columnHeads, html, type Html } from "../html/Html.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import * as Piece from "../shared/ListPiece.ts"
import { isServiceOwner } from "../shared/ServiceOwners.ts"
import * as AgentList from "./AgentList.ts"

type Handler = Page.Handler<Page.Member>

const MESSAGES = {
  saved: "Saved. New sandboxes use it within seconds.",
  removed: "Provider removed. Its key was deleted."
}

const notTheirs = new Refused({
  status: 403,
  title: "Models are for the service's owners",
  text: "Owners of the organization that runs this service connect providers of models. Ask one of them, or an administrator."
})

const noProvider = Refused.notFound("Nothing is stored for this provider.")

/** A form as it was sent, without its key. */
interface Draft {
  readonly provider: string
  readonly baseUrl: string
  readonly model: string
  readonly isDefault: boolean
  /** Why it was refused. */
  readonly problem: string
}

const isName = Schema.is(ProviderName)

const modelRow = (id: string, isDefault: boolean, problems: ReadonlyArray<string>): Html =>
  html`
<tr>
<th scope="row">${id}${isDefault && " (default)"}</th>
<td data-label="State">${problems.length === 0 ? "Ready" : html`<ul>${problems.map((problem) => html`<li>${problem}</li>`)}</ul>`}</td>
</tr>`

const modelTable = ({ default: chosen, models, unusable = [] }: typeof ModelCatalogue.Service): Html =>
  html`<table class="rows" id="models" data-piece="models"><caption class="unseen">Models, and what they lack</caption>
<thead><tr>${columnHeads("Model", "State")}</tr></thead>
<tbody>${models.map(({ id }) => modelRow(id, id === chosen, []))}
${unusable.map(({ id, problems, reason }) => modelRow(id, id === chosen, problems ?? [reason]))}
</tbody></table>`

const fromFile = html`<p>The models come from a file of the operator, whose addresses and default win over those here.</p>`

const keyHint = (name: ProviderName, stored: ModelProvider | undefined, setup: ModelSetup | undefined): Html => {
  const { variable } = providers[name]
  if (setup?.environment.has(variable) === true) {
    return html`The environment variable <code>${variable}</code> is set. Its key is used, and a key here is not.`
  }
  if (stored?.hasKey === true) return html`A key is stored. Leave this empty to keep that key.`
  const need = name === "compatible" ? " Many servers need none." : ""
  return html`No key is stored.${need} Keys are encrypted and never shown again.`
}

const form = (
  csrf: Html,
  name: ProviderName,
  stored: ModelProvider | undefined,
  setup: ModelSetup | undefined,
  refused: Draft | null,
  hasDefault: boolean
): Html => {
  const { baseUrl: own, label } = providers[name]
  const draft = refused?.provider === name ? refused : null
  const invalid = draft !== null && html` aria-errormessage="${name}-problem"`
  const isDefault = draft === null ? stored?.isDefault ?? !hasDefault : draft.isDefault
  const free = html`<div class="field">
<label for="${name}-model">Model</label>
<input id="${name}-model" name="model" value="${draft?.model ?? stored?.model ?? ""}" required autocapitalize="none" spellcheck="false"
placeholder="qwen3"${invalid}>
</div>`
  const choice = html`<div class="choice">
<input type="checkbox" id="${name}-default" name="default" value="yes"${isDefault && html` checked`}>
<label for="${name}-default">Default for new sandboxes</label></div>`
  return html`<form method="post" action="/models" class="panel" aria-labelledby="${name}" autocomplete="off">
<h2 id="${name}">${label}</h2>
${csrf}<input type="hidden" name="provider" value="${name}">
${draft !== null && html`<p class="problem" role="alert" id="${name}-problem">${draft.problem}</p>`}
<div class="field">
<label for="${name}-key">Key</label>
<input id="${name}-key" name="key" type="password" autocomplete="off" spellcheck="false" aria-describedby="${name}-hint"${invalid}>
<p class="hint" id="${name}-hint">${keyHint(name, stored, setup)}</p>
</div>
<div class="field">
<label for="${name}-url">Address</label>
<input id="${name}-url" name="baseUrl" type="url" value="${draft?.baseUrl ?? stored?.baseUrl ?? ""}"${own === null && html` required`}
placeholder="${own ?? "http://localhost:11434/v1"}"${invalid}>
</div>
${own === null ? free : html`<input type="hidden" name="model" value="${stored?.model ?? ""}">`}
${setup?.isOperators !== true && choice}
<div class="actions">
<button>Save</button>
${stored !== undefined && html`<a class="button quiet" href="/models/remove?provider=${name}" aria-label="Remove ${label}">Remove…</a>`}
</div>
</form>`
}

const removal = (csrf: Html, name: ProviderName, label: string): Html =>
  html`<h1>Remove ${label}?</h1>
<p>Its key and its settings are deleted. Sandboxes with its models cannot continue until a key is stored again.</p>
<div class="actions">
<form method="post" action="/models/remove">${csrf}<input type="hidden" name="provider" value="${name}">
<button class="danger">Remove provider</button></form>
<a class="button quiet" href="/models">Cancel</a>
</div>`

/** Names of fields for people: a refusal has those for programs. */
const WORDS: Readonly<Record<string, string>> = { key: "The key", baseUrl: "The address", model: "The model", provider: "The provider" }

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const store = yield* ModelProviders
  const people = yield* MemberStore
  const catalogue = yield* ModelCatalogue

  /** So that the next page shows the change. */
  const applied = Effect.suspend(() => catalogue.setup?.apply ?? Effect.void)

  /** Admits owners of the organization that runs the service: a provider serves all organizations. */
  const forOwners = (handler: Handler): Handler => (member, asked) =>
    Effect.flatMap(isServiceOwner(people, member), (isOwner) => isOwner ? handler(member, asked) : notTheirs)

  const agents = yield* AgentList.make

  const page = Effect.fnUntraced(function*(member: Page.Member, told: Html | null, refused: Draft | null, status: number) {
    const stored = yield* store.list
    const { setup } = catalogue
    const hasDefault = stored.some(({ isDefault }) => isDefault)
    const forms = ProviderName.literals.map((name) =>
      form(member.csrf, name, stored.find(({ provider }) => provider === name), setup, refused, hasDefault)
    )
    const { around, piece, scripts } = yield* agents.list(member)
    const body = html`<h1>Models</h1>
${told}
<p>${setup?.isolation ?? "Workers on other machines run the agents, and choose their isolation."}</p>
${setup?.isOperators === true && fromFile}
${modelTable(catalogue)}
${piece}
${around}
${forms}`
    return Page.show({ title: "Models", place: "models", body, scripts }, member, { status })
  })

  /** The changing parts alone, for `board.js`. */
  const state: Handler = Effect.fnUntraced(function*(member) {
    return yield* Piece.answer(html`${modelTable(catalogue)}${(yield* agents.list(member)).piece}`)
  })

  const show: Handler = (member, asked) => page(member, Page.told(asked, MESSAGES), null, 200)

  const save: Handler = Effect.fnUntraced(function*(member, { form }) {
    const given = {
      provider: yield* form.one("provider"),
      baseUrl: (yield* form.one("baseUrl")).trim(),
      model: (yield* form.one("model")).trim(),
      isDefault: form.all("default").length > 0
    }
    const key = (yield* form.one("key")).trim()
    const again = (problem: string, status: number) => page(member, null, { ...given, problem }, status)
    return yield* store.set({
      ...given,
      baseUrl: given.baseUrl === "" ? null : given.baseUrl,
      model: given.model === "" ? null : given.model,
      key: key === "" ? "keep" : Redacted.make(key)
    }).pipe(
      Effect.andThen(applied),
      Effect.as(Page.redirect("/models?done=saved")),
      Effect.catchTags({
        InvalidRequest: ({ field, reason }) => again(`${WORDS[field] ?? "This"} cannot be used: ${reason}.`, 400),
        IncompleteProvider: ({ message }) => again(message, 400),
        SecretsUnusable: ({ problem }) =>
          Effect.andThen(
            Effect.logError("the key of a provider cannot be stored", { problem }),
            new Refused({
              status: 503,
              title: "Keys cannot be stored now",
              text: "Nothing was saved: the service has no usable key to encrypt with. Its log says what an administrator can do."
            })
          )
      })
    )
  })

  const find = Effect.fnUntraced(function*(name: string) {
    const found = (yield* store.list).find(({ provider }) => provider === name)
    return isName(name) && found !== undefined ? found.provider : yield* noProvider
  })

  const askToRemove: Handler = Effect.fnUntraced(function*(member, { url }) {
    const name = yield* find(url.searchParams.get("provider") ?? "")
    const { label } = providers[name]
    return Page.show({ title: `Remove ${label}?`, place: "models", body: removal(member.csrf, name, label) }, member)
  })

  const remove: Handler = Effect.fnUntraced(function*(_member, { form }) {
    yield* store.remove(yield* form.one("provider"))
    yield* applied
    return Page.redirect("/models?done=removed")
  }, Effect.catchTag("ProviderNotFound", () => Effect.fail(noProvider)))

  yield* members("/models", { GET: forOwners(show), POST: forOwners(save) })
  yield* members("/models/state", { GET: forOwners(state) })
  yield* members("/models/install", { POST: forOwners(agents.install) })
  yield* members("/models/remove", { GET: forOwners(askToRemove), POST: forOwners(remove) })
}))
