/** The messages about a setup for agents and people. */
import * as CachePath from "@slipway/domain/environment/rules/CachePath"
import { type Environment, EnvironmentInvalid } from "@slipway/domain/environment/rules/Environment"
import type { SetupCache } from "@slipway/domain/sandbox/ports/Setups"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { cut } from "@slipway/domain/text/Utf8"
import { Duration } from "effect"
import * as SetupCommand from "./SetupCommand.ts"

/** Said in the output of a setup that does not get the variables of the sandbox. */
export const WITHOUT_VARIABLES = "The variables of this sandbox are for its agent only: a repository names secrets for its setup."

/** The result of one repository's setup. */
export type Result =
  | { readonly _tag: "Succeeded" }
  | { readonly _tag: "TimedOut"; readonly within: Duration.Duration }
  | { readonly _tag: "Invalid"; readonly problem: string }
  | { readonly _tag: "Failed" } & SetupCommand.Failure

/** Limits: bytes of a command, bytes of a sentence, named files. */
const MAX_COMMAND = 200
const MAX_PROBLEM = 2_000
const MAX_FILES = 20

export const minutes = (time: Duration.Duration): string => {
  const seconds = Math.round(Duration.toSeconds(time))
  return seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`
}

/** The text comes from a repository, so it must not start a new line. */
const inLine = (text: string): string => visible(text.replaceAll(/\s+/gu, " "))

const code = (text: string): string => `\`${cut(inLine(text), MAX_COMMAND, "…").replaceAll("`", "'")}\``

/** Why a setup failed, in one sentence. */
export const reason = (result: Exclude<Result, { readonly _tag: "Succeeded" }>): string => {
  switch (result._tag) {
    case "Invalid":
      return cut(inLine(result.problem), MAX_PROBLEM, "…")
    case "TimedOut":
      return `It took longer than ${minutes(result.within)} and was ended.`
    case "Failed":
      return `${result.command.key}, ${code(SetupCommand.shown(result.command))}, ` +
        (result.exitCode === null ? "was ended or could not be started." : `ended with exit code ${result.exitCode}.`)
  }
}

/** A sentence for people, followed by the last lines of the output. */
export const withOutput = (sentence: string, lastLines: string): string => lastLines === "" ? sentence : `${sentence}\n${lastLines}`

/** For a setup that could not start. */
export const refused = (problem: string): string => `# Setup\n\nThe setup of this sandbox did not run. ${cut(problem, MAX_PROBLEM, "…")}\n`

/** Why the setup ran without its secrets, in a sentence. */
export const withoutSecrets = (why: string): string => `It ran without its secrets. ${cut(inLine(why), MAX_PROBLEM, "…")}`

const indented = (text: string): string => text.split("\n").map((line) => `    ${line}`).join("\n")

/** The section of one repository, Markdown. `changed`: its files that the setup changed. */
export const sectionFor = ({ cache, changed, environment, file, folder, lastLines, repo, result, secretsWithheld }: {
  readonly repo: string
  readonly folder: string
  readonly file: string
  readonly environment: Environment | EnvironmentInvalid
  readonly cache: SetupCache
  readonly result: Result
  readonly changed: ReadonlyArray<string>
  readonly lastLines: string
  /** Why the setup ran without its secrets. */
  readonly secretsWithheld: string | undefined
}): string => {
  const commands = environment instanceof EnvironmentInvalid ? [] : environment.setup.flat()
  const about = [`# Setup of ${repo} (in the folder ${folder})`]
  if (result._tag === "Succeeded") {
    const ran = commands.map((one) => code(SetupCommand.shown(one))).join(", ")
    if (cache === "hit" && !(environment instanceof EnvironmentInvalid)) {
      const folders = environment.cache.map((path) => code(CachePath.show(path))).join(", ")
      const filled = `What they fill was brought back as they left it in an earlier sandbox: ${folders}.`
      about.push(`The commands of ${file} did not run here: ${ran}. ${filled}`)
    } else if (ran !== "") about.push(`Before you started, the commands of ${file} ran and succeeded: ${ran}.`)
  } else {
    about.push(`The setup that ${file} asks for failed. ${reason(result)} What it installs may be missing.`)
    if (result._tag !== "Invalid" && lastLines !== "") about.push(`The end of its output:\n\n${indented(lastLines)}`)
  }
  if (secretsWithheld !== undefined) about.push(withoutSecrets(secretsWithheld))
  if (changed.length > 0) {
    const more = changed.length > MAX_FILES ? `, and ${changed.length - MAX_FILES} more` : ""
    const names = changed.slice(0, MAX_FILES).map(code).join(", ") + more
    about.push(`Setup changed files of the repository, which are among the changes of this sandbox: ${names}.`)
  }
  return about.length === 1 ? "" : `${about.join("\n\n")}\n`
}
