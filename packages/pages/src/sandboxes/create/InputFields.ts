/** The budget and the variables of a new sandbox, in its form. */
import { MAX_BYTES, MAX_VARIABLES } from "@slipway/domain/environment/schema/SandboxVariables"
import { Usd } from "@slipway/domain/models/schema/Budget"
import { formatUsd } from "@slipway/domain/text/FormatUsd"
import { Option, Schema } from "effect"
import { html, type Html } from "../../html/Html.ts"

/** The content of the fields, as typed. */
export interface InputDraft {
  /** US dollars, such as 2.50. */
  readonly budget: string
  /** A variable a line, as NAME=value. */
  readonly variables: string
}

/** Neither a budget nor a variable. */
export const NO_INPUTS: InputDraft = { budget: "", variables: "" }

/** A fault that is found before the request is made. */
interface Fault {
  readonly field: keyof InputDraft
  readonly text: string
}

/** The text for an amount that cannot be a budget. */
export const BUDGET_FAULT = "Enter an amount in US dollars, such as 2.50."

const budgetOf = Schema.decodeUnknownOption(Usd)

const linesOf = ({ variables }: InputDraft): ReadonlyArray<string> => variables.split("\n").filter((line) => line.trim() !== "")

/** Why the fields cannot become a request; `null`: they can, or the schema says why not. */
export const faultOf = (draft: InputDraft): Fault | null => {
  if (draft.budget !== "" && Option.getOrElse(budgetOf(draft.budget), () => 0) === 0) return { field: "budget", text: BUDGET_FAULT }
  const odd = linesOf(draft).findIndex((line) => !line.includes("="))
  return odd === -1 ? null : { field: "variables", text: `Write each variable as NAME=value (line ${odd + 1}).` }
}

/** The text for variables that are refused. The values are not repeated. */
export const faultOfName = (field: string, reason: string): string =>
  field === "environment"
    ? `At most ${MAX_VARIABLES} variables, of ${MAX_BYTES / 1024} KiB together.`
    : `${field.slice("environment.".length)}: ${reason}.`

/** The text for a budget above the operator's limit; `null`: nothing enforces budgets. */
export const tooLarge = (limit: number | null): string =>
  limit === null ? "This service enforces no budgets. Leave the field empty." : `Enter at most ${formatUsd(limit)}, the limit of a sandbox.`

/** The part of a creation. Without anything typed it is empty. A later variable of a name replaces an earlier one. */
export const requestOf = (draft: InputDraft): object => {
  const lines = linesOf(draft)
  return {
    ...(draft.budget === "" ? {} : { budgetMicroUsd: Option.getOrElse(budgetOf(draft.budget), () => 0) }),
    ...(lines.length === 0 ? {} : {
      environment: Object.fromEntries(lines.map((line) => {
        const at = line.indexOf("=")
        return [line.slice(0, at).trim(), line.slice(at + 1)]
      }))
    })
  }
}

const HINT = "inputs-hint"

/** `described`: the attributes of a field that name its fault and its hint. */
export const render = (
  { budget, variables }: InputDraft,
  described: (field: keyof InputDraft, hint: string) => Html
): Html =>
  html`<details${budget + variables !== "" && html` open`}><summary>Budget and variables</summary>
<div class="compose-line">
<div class="field"><label for="compose-budget">Budget</label>
<input id="compose-budget" name="budget" value="${budget}" inputmode="decimal" placeholder="2.50" autocomplete="off" spellcheck="false"
maxlength="17"${described("budget", HINT)}></div>
<div class="field"><label for="compose-variables">Variables</label>
<textarea id="compose-variables" name="variables" rows="3" placeholder="NAME=value" autocomplete="off" autocapitalize="none"
spellcheck="false" maxlength="40000"${described("variables", HINT)}>
${variables}</textarea></div>
</div>
<p class="hint" id="${HINT}">The budget limits model costs, in US dollars. Setup and the agent get the variables, one a line. Do not write
secrets here.</p></details>`
