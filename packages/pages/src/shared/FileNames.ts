/** Names that complete a path after `@`, for `complete.js`: entries of the folder that is typed. */
import { html, type Html } from "../html/Html.ts"

/** Names that are offered at once. */
const SHOWN = 20
/** Characters of a path. */
const MAX_PATH = 1_000

interface Typed {
  /** Without a slash at its end; empty: the top. */
  readonly folder: string
  /** A part of the name. */
  readonly part: string
}

/** `null`: too long for a path. */
export const typedOf = ({ searchParams }: URL): Typed | null => {
  const path = searchParams.get("path") ?? ""
  const cut = path.lastIndexOf("/")
  return path.length > MAX_PATH ? null : { folder: cut < 0 ? "" : path.slice(0, cut), part: path.slice(cut + 1) }
}

interface Name {
  readonly name: string
  readonly isFolder: boolean
}

/** The names that fit, those that begin with what is typed first. A name with control characters would break the line it is put in. */
export const render = ({ folder, part }: Typed, names: ReadonlyArray<Name>): Html => {
  const wanted = part.toLowerCase()
  const fit = names.filter(({ name }) => name.toLowerCase().includes(wanted) && !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(name))
  const begins = ({ name }: Name) => name.toLowerCase().startsWith(wanted)
  const shown = [...fit.filter(begins), ...fit.filter((one) => !begins(one))].slice(0, SHOWN)
  const before = folder === "" ? "" : `${folder}/`
  const options = shown.map(({ isFolder, name }) => {
    const whole = `${name}${isFolder ? "/" : ""}`
    return html`<div role="option" data-text="${before}${whole}"><span class="what">${whole}</span></div>
`
  })
  return html`${options}`
}
