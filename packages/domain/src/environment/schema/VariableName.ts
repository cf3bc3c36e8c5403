/** Names of environment variables and secrets (docs/decisions/17). */
import * as Schema from "effect/Schema"

/** Variables that the service sets for boxes and agents, and variables that change how programs start. */
const RESERVED: ReadonlySet<string> = new Set([
  "PATH",
  "HOME",
  "HOSTNAME",
  "TMPDIR",
  "LANG",
  "TERM",
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "NO_PROXY",
  "GATEWAY_TOKEN",
  "XAI_API_KEY",
  "IS_SANDBOX",
  "OFFLINE_AGENT",
  "DISABLE_AUTOUPDATER",
  "DISABLE_TELEMETRY",
  "DISABLE_ERROR_REPORTING",
  "NODE_OPTIONS",
  "BUN_OPTIONS",
  "BASH_ENV"
])
const RESERVED_FAMILIES = ["SLIPWAY_", "SANDBOX_", "ANTHROPIC_", "CLAUDE_", "CODEX_", "GROK_", "OPENCODE_", "LD_", "XDG_"]

/** Whether the name is reserved for the service, in any case: some programs read variables in both cases. */
export const isReserved = (name: string): boolean => {
  const folded = name.toUpperCase()
  return RESERVED.has(folded) || RESERVED_FAMILIES.some((family) => folded.startsWith(family))
}

/** The filter of {@link isReserved} for schemas of names. */
export const isFree = Schema.makeFilter((name: string) => !isReserved(name), {
  expected: "a name that the service does not set itself",
  toJsonSchema: () => [{}, true]
})

/** The name of an environment variable (POSIX.1-2024, 8.1): at most 64 characters, not reserved. */
export const VariableName = Schema.String.check(
  Schema.isPattern(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/u, {
    expected: "a name of letters, digits and _, not a digit first, at most 64 characters"
  }),
  isFree
)
export type VariableName = typeof VariableName.Type
