/**
 * Comments on lines of a diff, for the agent. Each line has a button of a form. `review.js` opens a field below the line, and collects
 * the comments in the message box. Without scripts the form leads to the file's page, whose message box begins with the line.
 */
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect } from "effect"
import { html, type Html } from "../../html/Html.ts"
import { Refused } from "../../layout/Refused.ts"
import type { PatchedFile } from "./Patch.ts"

/** A file of a diff, as messages name it. */
export interface Place {
  readonly repo: RepoName
  readonly path: string
  /** The compared version, if it is not the file as it is now: `at checkpoint 2`. */
  readonly version: string | null
}

/** Messages name the repository only if the sandbox has several. */
const nameOf = ({ repos }: Sandbox, { path, repo }: Place): string => repos.length > 1 ? `${repo}: ${path}` : path

/** `src/cart/total.ts:5`. `line` is negative for a removed one. */
const placeOf = (sandbox: Sandbox, place: Place, line: number): string => {
  const version = line < 0 ? " (removed)" : place.version === null ? "" : ` (${place.version})`
  return `${nameOf(sandbox, place)}:${Math.abs(line)}${version}`
}

/** The form of the buttons. `fields`: the address of the file's page. */
export const form = (sandbox: Sandbox, id: string, place: Place, fields: Readonly<Record<string, string>>): Html => {
  const hidden = Object.entries(fields).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)
  const version = place.version !== null && html` data-version="${place.version}"`
  const about = html`data-place="${nameOf(sandbox, place)}"${version}`
  return html`<form id="${id}" method="get" action="/sandboxes/${sandbox.id}/changes" ${about}>${hidden}</form>`
}

/** The line that the address names; `null`: none. */
export const lineOf = ({ searchParams }: URL): Effect.Effect<number | null, Refused> => {
  const given = searchParams.get("line")
  if (given === null) return Effect.succeed(null)
  return /^-?[1-9]\d{0,8}$/u.test(given)
    ? Effect.succeed(Number(given))
    : Effect.fail(Refused.bad("The line must be a number other than 0."))
}

/** Longer lines are quoted up to here, as the page shows them. */
const MAX_QUOTED = 400

/** A message that begins with the line. */
export const draft = (sandbox: Sandbox, place: Place, line: number, file: PatchedFile | undefined): string => {
  const found = file?.hunks.flat().find(({ after, before, kind }) => line < 0 ? kind === "removed" && before === -line : after === line)
  const quoted = found === undefined ? "" : `> ${found.text.trimEnd().slice(0, MAX_QUOTED)}\n`
  return `${placeOf(sandbox, place, line)}\n${quoted}\n`
}
