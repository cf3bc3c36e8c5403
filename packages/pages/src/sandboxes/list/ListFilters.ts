/** Filters of lists. They are in the addresses, so that people can keep and share them. */
import type { AttentionState } from "@slipway/domain/sandbox/rules/AttentionState"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect, Option, Schema } from "effect"
import { html, type Html } from "../../html/Html.ts"
import { Refused } from "../../layout/Refused.ts"

/** Characters of a search. */
const MAX_SEARCH = 120
/** As many as a sandbox has. */
const MAX_PAIRS = 16
/** Characters of the filters in an address: each link of the page has them, and the forms of its rows. */
const MAX_ADDRESS = 4096
const METADATA = "metadata."

const asRepo = Schema.decodeUnknownOption(RepoName)

export interface Narrowed {
  readonly search: string
  readonly repo: RepoName | null
  /** The text of the field if it is no repository's name; `null` otherwise. */
  readonly noRepo: string | null
  /** The id of the person who started them; `null`: anyone. */
  readonly person: string | null
  /** `metadata.KEY=VALUE` of the address. */
  readonly metadata: Readonly<Record<string, string>>
  /** Only archived sandboxes; they are left out otherwise. */
  readonly archived: boolean
}

/** A person who started sandboxes. */
export interface Person {
  readonly id: string
  readonly name: string
}

/** The value of a field of the address. */
export const given = (url: URL, name: string): string => (url.searchParams.get(name) ?? "").trim()

export const read = Effect.fnUntraced(function*(url: URL): Effect.fn.Return<Narrowed, Refused> {
  const [search, typed] = [given(url, "search"), given(url, "repo")]
  if (search.length > MAX_SEARCH) return yield* Refused.bad(`Search for at most ${MAX_SEARCH} characters.`)
  const repo = Option.getOrNull(asRepo(typed))
  const person = given(url, "person")
  const pairs = [...url.searchParams].filter(([name]) => name.startsWith(METADATA)).map(([name, value]) =>
    [
      name.slice(METADATA.length),
      value
    ] as const
  )
  if (url.search.length > MAX_ADDRESS || pairs.length > MAX_PAIRS) return yield* Refused.bad("There are too many filters.")
  return {
    search,
    repo,
    noRepo: repo === null && typed !== "" ? typed : null,
    person: person === "" ? null : person,
    metadata: Object.fromEntries(pairs),
    archived: given(url, "archived") === "yes"
  }
})

/** The filters of an address that are not empty. */
export const kept = (url: URL, names: ReadonlyArray<string>): URLSearchParams =>
  new URLSearchParams([...url.searchParams].filter(([name, value]) => names.includes(name) && value !== ""))

/** The address of the list with these filters. */
export const addressOf = (
  { archived = false, metadata = {}, person = null, repo = null, search = "" }: Partial<Narrowed>,
  state: AttentionState | null = null,
  after = ""
): string => {
  const filters = [
    ["state", state ?? ""],
    ["search", search],
    ["repo", repo ?? ""],
    ["person", person ?? ""],
    ["archived", archived ? "yes" : ""],
    ["after", after]
  ].filter(([, value]) => value !== "")
  const query = new URLSearchParams([...filters, ...Object.entries(metadata).map(([key, value]) => [METADATA + key, value])])
  return query.size === 0 ? "/sandboxes" : `/sandboxes?${query}`
}

export const searchField = ({ search }: Narrowed): Html =>
  html`<div class="field"><label for="search">Search titles and messages</label>
<input id="search" name="search" type="search" value="${search}" maxlength="${MAX_SEARCH}" placeholder="Search titles and messages"
autocomplete="off"></div>`

/** Left out where only one person started sandboxes. */
export const personField = (people: ReadonlyArray<Person>, { person }: Narrowed): Html | null => {
  if (people.length < 2 && person === null) return null
  const all = person === null || people.some(({ id }) => id === person) ? people : [...people, { id: person, name: person }]
  const options = all.map(({ id, name }) =>
    html`<option value="${id}"${id === person && html` selected`}>${name}</option>
`
  )
  return html`<div class="field"><label for="person">Started by</label>
<select id="person" name="person">
<option value="">Started by anyone</option>
${options}</select></div>`
}

/** The pairs of metadata, each with a link to the list without it, and kept by the form. */
export const metadataChips = (narrowed: Narrowed, state: AttentionState | null): Html | null => {
  const pairs = Object.entries(narrowed.metadata)
  if (pairs.length === 0) return null
  const chips = pairs.map(([key, value]) => {
    const without = addressOf({ ...narrowed, metadata: Object.fromEntries(pairs.filter(([other]) => other !== key)) }, state)
    return html`<li><input type="hidden" name="${METADATA}${key}" value="${value}">
<a href="${without}"><span class="unseen">Remove </span>${key}: ${value} <span aria-hidden="true">×</span></a></li>
`
  })
  return html`<ul class="chips">
${chips}</ul>`
}

export const repoField = ({ noRepo, repo }: Narrowed): Html =>
  html`<div class="field"><label for="repo">In repository</label>
<input id="repo" name="repo" value="${repo ?? noRepo ?? ""}" placeholder="owner/name" autocomplete="off" spellcheck="false"></div>`

/** Shown in place of the list. */
export const notARepo = html`<p class="problem" role="alert">Write the repository as owner/name.</p>`
