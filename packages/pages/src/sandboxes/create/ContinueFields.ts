/** The pull request or branch that a new sandbox continues, in its form (docs/decisions/24). */
import type { OpenPull, SourceHost } from "@slipway/domain/source/ports/SourceHost"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Effect } from "effect"
import { html, type Html } from "../../html/Html.ts"

/** The content of the fields, as typed. At most one is used. */
export interface ContinueDraft {
  /** The number of a pull request, with or without `#`. */
  readonly pull: string
  readonly branch: string
}

/** Nothing is continued. */
export const NO_CONTINUE: ContinueDraft = { pull: "", branch: "" }

/** A fault that is found before the request is made. */
interface Fault {
  readonly field: keyof ContinueDraft
  readonly text: string
}

/** Fifteen digits are an exact number, which the schema then checks. */
const NUMBER = /^#?(\d{1,15})$/u

/** The page does not wait longer for a source host's list. */
const PATIENCE = "1500 millis"

/** Why the fields cannot become a request; `null`: they can. `ref`: the branch of the repository, as typed. */
export const faultOf = ({ branch, pull }: ContinueDraft, ref: string): Fault | null => {
  if (pull !== "" && !NUMBER.test(pull)) return { field: "pull", text: "Enter the number of a pull request, such as #12." }
  if (pull !== "" && branch !== "") return { field: "branch", text: "Enter a pull request or a branch, not both." }
  if (pull + branch !== "" && ref !== "") {
    return {
      field: pull === "" ? "branch" : "pull",
      text: "Clear the branch of the repository: the sandbox starts at the continued branch."
    }
  }
  return null
}

/** The part of a creation, of its repository `repo`. Without anything typed it is empty. */
export const requestOf = ({ branch, pull }: ContinueDraft, repo: string): object => {
  if (pull === "" && branch === "") return {}
  return { continue: { repo, ...(pull === "" ? { branch } : { pullRequest: Number(NUMBER.exec(pull)?.[1]) }) } }
}

const HINT = "continue-hint"

/** `described`: the attributes of a field that name its fault and its hint. */
export const render = ({ branch, pull }: ContinueDraft, described: (field: keyof ContinueDraft, hint: string) => Html): Html =>
  html`<details${pull + branch !== "" && html` open`}><summary>Continue a pull request or branch</summary>
<div class="compose-line">
<div class="field"><label for="continue-pull">Pull request</label>
<input id="continue-pull" name="pull" list="pulls" value="${pull}" placeholder="#12" autocomplete="off" spellcheck="false"
maxlength="16" data-pulls="/new/pulls"${described("pull", HINT)}></div>
<div class="field"><label for="continue-branch">Branch to continue</label>
<input id="continue-branch" name="continue" value="${branch}" placeholder="feature/cart" autocomplete="off" autocapitalize="none"
spellcheck="false" maxlength="255"${described("branch", HINT)}></div>
</div>
<p class="hint" id="${HINT}">In the first repository. The agent starts there, and publishing adds commits to it.</p>
<datalist id="pulls"></datalist></details>`

/** Choices for the field of pull requests. */
export const optionsOf = (pulls: ReadonlyArray<OpenPull>): ReadonlyArray<Html> =>
  pulls.map(({ headRef, number, title }) =>
    html`<option value="#${number}">${visible(title)} (${visible(headRef)})</option>
`
  )

/** Open pull requests for choosing. A slow or failing host has none. */
export const pullsOf = (source: SourceHost["Service"], repo: RepoName): Effect.Effect<ReadonlyArray<OpenPull>> =>
  source.openPullRequests(repo).pipe(
    Effect.timeout(PATIENCE),
    Effect.catch((error) => Effect.as(Effect.logDebug("the source host lists no pull requests", error), []))
  )
