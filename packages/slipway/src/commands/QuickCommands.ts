/**
 * Commands that only ask a server, without Effect: loading it takes four fifths of their start. They read the plain form of a command line;
 * any other one, such as `--help` or a mistake, is left to the whole command, which explains it.
 */
import { stateWords } from "@slipway/domain/sandbox/rules/AttentionState"
import type { AttentionState } from "@slipway/domain/sandbox/schema/AttentionState"
import { parseArgs, type ParseArgsConfig } from "node:util"
import { DEFAULT_LIMIT, isLimit, listSandboxes, type Options } from "./client/server/ListSandboxes.ts"
import { Failed } from "./client/server/ServerAccess.ts"
import { ExitCode } from "./terminal/ExitCodes.ts"

const PS = {
  all: { type: "boolean", short: "a" },
  archived: { type: "boolean", short: "A" },
  repo: { type: "string" },
  limit: { type: "string" },
  state: { type: "string" },
  watch: { type: "boolean", short: "w" },
  quiet: { type: "boolean", short: "q" },
  json: { type: "boolean" },
  url: { type: "string" }
} as const satisfies Record<keyof Options, NonNullable<ParseArgsConfig["options"]>[string]>

const isState = (state: string): state is AttentionState => Object.hasOwn(stateWords, state)

/** The flags of `slipway ps`; `null`: they are not in the plain form, or invalid. */
export const psOptions = (args: ReadonlyArray<string>): Options | null => {
  try {
    const { tokens, values } = parseArgs({ args: [...args], options: PS, strict: true, tokens: true })
    const names = tokens.map((token) => token.kind === "option" ? token.name : "")
    if (new Set(names).size < names.length || names.includes("") || Object.values(values).includes("")) return null
    const { all = false, archived = false, json = false, limit = String(DEFAULT_LIMIT), quiet = false, repo, state, watch = false } = values
    if (!/^\d{1,4}$/u.test(limit) || !isLimit(Number(limit)) || state !== undefined && !isState(state)) return null
    return { all, archived, json, limit: Number(limit), quiet, repo, state, url: values.url ?? process.env["SLIPWAY_URL"], watch }
  } catch {
    return null
  }
}

/** Runs the command, if it is one of these, and answers whether it was. Reports its failure and sets the exit code. */
export const runQuick = async ([name, ...args]: ReadonlyArray<string>): Promise<boolean> => {
  const options = name === "ps" ? psOptions(args) : null
  if (options === null) return false
  process.once("SIGINT", () => process.exit(ExitCode.detached))
  try {
    await listSandboxes(options)
  } catch (error) {
    if (!(error instanceof Failed)) throw error
    process.stderr.write(`slipway: ${error.message}\n`)
    process.exitCode = error.failure.exitCode
  }
  return true
}
