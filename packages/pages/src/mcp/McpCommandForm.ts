/** The form of an MCP server that is a command in the sandbox's box. Values of variables are never sent back. */
import { MAX_ARGUMENTS, type McpCommandSettings } from "@slipway/domain/mcp/schema/McpServer"
import { variablesOf } from "@slipway/domain/mcp/usecases/McpServers"
import type { Redacted } from "effect"
import { html, type Html } from "../html/Html.ts"

/** The content of the form, without values of variables. */
export interface CommandDraft {
  readonly repo: string
  readonly name: string
  /** The program and its arguments, one a line. */
  readonly command: string
  /** Names of variables with stored values. */
  readonly stored: ReadonlyArray<string>
  readonly onByDefault: boolean
  /** Why it was refused. */
  readonly problem: string | null
}

export const NO_COMMAND: CommandDraft = { repo: "", name: "", command: "", stored: [], onByDefault: true, problem: null }

export const draftOf = (
  repo: string,
  name: string,
  { arguments: args, command, onByDefault, variables }: McpCommandSettings
): CommandDraft => ({
  repo,
  name,
  command: [command, ...args].join("\n"),
  stored: variables,
  onByDefault,
  problem: null
})

const linesOf = (text: string): ReadonlyArray<string> => text.split(/\r?\n/u).filter((line) => line.trim() !== "")

/** The fields of the form that was sent. */
interface CommandFields {
  readonly command: string
  readonly variables: string
  readonly isCleared: boolean
}

type Read =
  | { readonly problem: string }
  | {
    readonly settings: Pick<McpCommandSettings, "arguments" | "command" | "variables">
    /** The values of the variables; `null`: none are given. */
    readonly credential: Redacted.Redacted | null
  }

/** `stored`: names of variables, which stay if the form has none. The error never repeats a value. */
export const read = ({ command: text, isCleared, variables }: CommandFields, stored: ReadonlyArray<string>): Read => {
  const [command = "", ...args] = text.split(/\r?\n/u).map((line) => line.replace(/\r$/u, "")).filter((line) => line !== "")
  const lines = linesOf(variables)
  if (lines.length === 0) return { settings: { command, arguments: args, variables: isCleared ? [] : stored }, credential: null }
  const values: Record<string, string> = {}
  for (const line of lines) {
    const at = line.indexOf("=")
    const name = line.slice(0, at).trim()
    if (at < 1 || Object.hasOwn(values, name)) return { problem: "Each line of the variables is NAME=VALUE, with each name once." }
    values[name] = line.slice(at + 1)
  }
  return { settings: { command, arguments: args, variables: Object.keys(values) }, credential: variablesOf(values) }
}

const storedFields = (stored: ReadonlyArray<string>): Html =>
  html`<p class="hint">Stored: ${stored.map((name, i) => html`${i > 0 && ", "}<code>${name}</code>`)}. Left empty, their values stay.</p>
<label><input type="checkbox" name="clear" value="on"> Remove the stored variables</label>`

export const commandForm = (csrf: Html, { command, name, onByDefault, problem, repo, stored }: CommandDraft): Html => {
  const invalid = problem !== null && html` aria-errormessage="command-problem"`
  return html`<form method="post" action="/mcp-servers" class="panel" aria-labelledby="set-command" autocomplete="off">
<h2 id="set-command">Set an MCP server that is a command</h2>
${csrf}
${problem !== null && html`<p class="problem" role="alert" id="command-problem">${problem}</p>`}
<div class="field">
<label for="command-repo">Repository</label>
<input id="command-repo" name="repo" value="${repo}" required autocapitalize="none" spellcheck="false" placeholder="owner/name"${invalid}>
</div>
<div class="field">
<label for="command-name">Name</label>
<input id="command-name" name="name" value="${name}" required autocapitalize="none" spellcheck="false" placeholder="shop"
aria-describedby="command-name-hint"${invalid}>
<p class="hint" id="command-name-hint">Small letters, digits and hyphens. An existing server gets these settings.</p>
</div>
<div class="field">
<label for="command">Program and arguments</label>
<textarea id="command" name="command" rows="4" required autocapitalize="none" spellcheck="false" aria-describedby="command-hint"
placeholder="node"${invalid}>${command}</textarea>
<p class="hint" id="command-hint">One a line, the program first, up to ${MAX_ARGUMENTS} arguments. It runs in the sandbox's box as the
agent does, and starts in the repository.</p>
</div>
<div class="field">
<label for="variables">Variables (optional)</label>
<textarea id="variables" name="variables" rows="3" autocapitalize="none" spellcheck="false" autocomplete="off"
aria-describedby="variables-hint"${invalid}></textarea>
<p class="hint" id="variables-hint">One <code>NAME=VALUE</code> a line. Stored encrypted and never shown again, but the command has them in
the box, so <strong>agents can read them</strong>.</p>
${stored.length > 0 && storedFields(stored)}
</div>
<div class="field"><label><input type="checkbox" name="on" value="on"${onByDefault && html` checked`}> On by default</label></div>
<button>Set command</button>
</form>`
}
