/** The list of the files of a sandbox that differ from the commit it started from: for its page, and for the page of its changes. */
import type { ChangedFile, ChangedFiles, PartialWarning } from "@slipway/domain/files/schema/FileTree"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { isProtected } from "@slipway/domain/source/rules/FileRules"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { type Budget, fit } from "../../html/Fit.ts"
import { html, type Html, type Later } from "../../html/Html.ts"

const WARNINGS: Record<PartialWarning, string> = {
  entries_truncated: "Some changes are hidden.",
  unreadable_entries: "The changes could not be loaded: git could not read the tree.",
  invalid_names: "Files with undecodable names are hidden."
}

export const warnings = (all: ReadonlyArray<PartialWarning>): ReadonlyArray<Html> =>
  all.map((warning) => html`<p class="warning">${WARNINGS[warning]}</p>`)

/** The counts of a file by its `status`. */
export const counts = ({ additions, deletions, path, previousPath, status }: ChangedFile): Html => {
  if (isProtected(path)) return html`<span class="fine">protected: hidden</span>`
  const renamed = previousPath !== null && status === "renamed" && html` <span class="fine">was ${previousPath}</span>`
  return html`<span class="added-count">+${additions} <span class="unseen">lines added</span></span>
<span class="removed-count">−${deletions} <span class="unseen">lines removed</span></span>${renamed}`
}

export const stateOf = ({ status }: ChangedFile): Html => html`<span class="fine">${status === "untracked" ? "new" : status}</span>`

/** Where the page of changes shows one file. */
export const linkTo = (sandbox: Sandbox, repo: RepoName) => (path: string): string =>
  `/sandboxes/${sandbox.id}/changes?${new URLSearchParams({ repo, path })}`

/** Where the page of changes lists the files after so many. */
export const listOf = (sandbox: Sandbox, repo: RepoName) => (after: number): string =>
  `/sandboxes/${sandbox.id}/changes?${new URLSearchParams({ repo, after: String(after) })}`

/** Files of a list that do not fold away. */
const UNFOLDED = 5

/**
 * `listFrom`: where the files are listed that do not fit. `after`: how many files come before. `shown`: the file that the page has in
 * full.
 */
export const render = (
  { files, partialWarnings }: ChangedFiles,
  linkOf: (path: string) => string,
  budget: Budget,
  listFrom: (after: number) => string,
  { after = 0, shown = null }: { readonly after?: number; readonly shown?: string | null } = {}
): Later => {
  const item = (file: ChangedFile) => {
    const name = isProtected(file.path)
      ? html`<span>${file.path}</span>`
      : html`<a href="${linkOf(file.path)}"${file.path === shown && html` aria-current="page"`}>${file.path}</a>`
    return html`
<li>${name} ${stateOf(file)} ${counts(file)}</li>`
  }
  return fit(files.slice(after), budget, item, (items, taken) => {
    const none = partialWarnings.length === 0 && html`<p class="fine">No changes yet.</p>`
    const [added, removed] = files.reduce(([added, removed], file) => [added + file.additions, removed + file.deletions], [0, 0])
    const end = after + items.length
    const left = files.length - end
    const before = after > 0 &&
      html`<p class="fine">${after} earlier files hidden. <a href="${listFrom(0)}">Show from start</a></p>`
    const more = left > 0 && html`<p class="fine">${left} more hidden. <a href="${listFrom(end)}">Show more</a></p>`
    const isOpen = taken.slice(UNFOLDED).some(({ path }) => path === shown) && html` open`
    const folded = items.slice(UNFOLDED)
    const rest = folded.length > 0 && html`<details class="more-files"${isOpen}><summary>${folded.length} more files</summary>
<ul class="changes">${folded}
</ul></details>`
    const list = html`<p>${files.length === 1 ? "1 file" : `${files.length} files`}:
<span class="added-count">+${added} <span class="unseen">lines added</span></span>
<span class="removed-count">−${removed} <span class="unseen">lines removed</span></span></p>
${before}<ul class="changes">${items.slice(0, UNFOLDED)}
</ul>${rest}${more}`
    return html`${warnings(partialWarnings)}
${files.length === 0 ? none : list}`
  })
}
