/** Filters of lists. They are in the addresses, so that people can keep and share them. */
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect, Option, Schema } from "effect"
import { html, type Html } from "../../html/Html.ts"
import { Refused } from "../../layout/Refused.ts"

/** Characters of a title that are searched for. */
const MAX_SEARCH = 120

const asRepo = Schema.decodeUnknownOption(RepoName)

export interface Narrowed {
  readonly search: string
  readonly repo: RepoName | null
  /** The text of the field if it is no repository's name; `null` otherwise. */
  readonly noRepo: string | null
}

/** The value of a field of the address. */
export const given = (url: URL, name: string): string => (url.searchParams.get(name) ?? "").trim()

export const read = Effect.fnUntraced(function*(url: URL): Effect.fn.Return<Narrowed, Refused> {
  const [search, typed] = [given(url, "search"), given(url, "repo")]
  if (search.length > MAX_SEARCH) return yield* Refused.bad(`At most ${MAX_SEARCH} characters of a title are searched for.`)
  const repo = Option.getOrNull(asRepo(typed))
  return { search, repo, noRepo: repo === null && typed !== "" ? typed : null }
})

/** The filters of an address that are not empty. */
export const kept = (url: URL, names: ReadonlyArray<string>): URLSearchParams =>
  new URLSearchParams([...url.searchParams].filter(([name, value]) => names.includes(name) && value !== ""))

export const searchField = ({ search }: Narrowed): Html =>
  html`<div class="field"><label for="search">Search titles</label>
<input id="search" name="search" type="search" value="${search}" maxlength="${MAX_SEARCH}" placeholder="Search titles"
autocomplete="off"></div>`

export const repoField = ({ noRepo, repo }: Narrowed): Html =>
  html`<div class="field"><label for="repo">In repository</label>
<input id="repo" name="repo" value="${repo ?? noRepo ?? ""}" placeholder="owner/name" autocomplete="off" spellcheck="false"></div>`

/** Shown in place of the list. */
export const notARepo = html`<p class="problem" role="alert">Write the repository as owner/name.</p>`
