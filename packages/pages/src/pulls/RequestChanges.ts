/**
 * The form of a pull request's page that asks the agent for changes. `review.js` adds comments on lines to its text, each as the place,
 * the quoted line and the comment; here they become comments on lines again.
 */
import type { LineNote } from "@slipway/domain/publishing/usecases/Feedback"
import { MAX_REVIEW_COMMENTS } from "@slipway/domain/source/ports/PullRequests"
import { html, type Html } from "../html/Html.ts"

/** Characters of the text with all comments. */
export const MAX_REQUEST = 60_000

/** The form. `address`: of the pull request's page. */
export const form = (address: string, csrf: Html): Html =>
  html`<section aria-labelledby="request-title"><h2 id="request-title">Request changes</h2>
<p class="fine" id="request-hint">Comment on lines of the changes, or say here what should be different.
The agent works on it, and the pull request is updated.</p>
<form method="post" action="${address}/request-changes">${csrf}
<label for="prompt">What should change?</label>
<textarea id="prompt" name="text" rows="4" maxlength="${MAX_REQUEST}" required aria-describedby="request-hint"></textarea>
<div class="actions"><button>Request changes</button></div></form></section>`

/** The form whose buttons comment on lines of a file. `fields`: the address of the file's page. */
export const lineForm = (address: string, path: string, id: string, fields: Readonly<Record<string, string>>): Html => {
  const hidden = Object.entries({ ...fields, path }).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)
  return html`<form id="${id}" method="get" action="${address}" data-place="${path}">${hidden}</form>`
}

const COMMENT = /^(?<path>[^\n]{1,1000}):(?<line>[1-9]\d{0,8})(?: \(removed\))?\n(?<quote>> [^\n]*)\n\n(?<text>[^]+)$/u
/** Before each place with its quoted line. */
const NEXT = /\n\n(?=[^\n]{1,1000}:[1-9]\d{0,8}(?: \(removed\))?\n> )/u

/** The text and the comments on lines of what was sent. */
export const parse = (sent: string): { readonly text: string; readonly comments: ReadonlyArray<LineNote> } => {
  const texts: Array<string> = []
  const comments: Array<LineNote> = []
  for (const part of sent.replaceAll("\r\n", "\n").trim().split(NEXT)) {
    const { line = "", path = "", quote = "", text = "" } = COMMENT.exec(part)?.groups ?? {}
    if (path === "" || comments.length >= MAX_REVIEW_COMMENTS) texts.push(part)
    else comments.push({ path, line: Number(line), text: `${quote}\n\n${text.trim()}` })
  }
  return { text: texts.join("\n\n"), comments }
}
