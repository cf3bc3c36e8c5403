/** Runs the `slipway` command and reports its result. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import * as OutgoingRequest from "@slipway/machine/network/OutgoingRequest"
import * as ProxySettings from "@slipway/machine/network/ProxySettings"
import * as Cause from "effect/Cause"
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { styleText } from "node:util"
import manifest from "../package.json" with { type: "json" }
import { meantBy, renamedFrom, slipway, spelled } from "./commands/Slipway.ts"
import * as Help from "./commands/terminal/Help.ts"
import * as Logs from "./service/Logs.ts"
import * as Names from "./settings/Names.ts"

/** An expected failure is one line that says what to do. A defect is logged in full. */
const report = Effect.fnUntraced(function*(cause: Cause.Cause<unknown>) {
  const error = Cause.findErrorOption(cause)
  if (error._tag === "None") return Cause.hasInterruptsOnly(cause) ? undefined : yield* Effect.logFatal("slipway broke", cause)
  // `present` has shown the command line's own errors.
  if (CliError.isCliError(error.value)) return
  const redactor = yield* Redaction
  yield* Console.error(redactor.redact(`slipway: ${error.value instanceof Error ? error.value.message : String(error.value)}`))
})

/** Where the secret values of these commands come from. Their mistyped arguments may be such values, so they are never repeated. */
const SECRETS: Readonly<Record<string, string>> = {
  secrets: "The value of a secret is read from standard input",
  setup: "A key is read from --key-file, the environment or a hidden prompt"
}

/** The problem without any typed text except names that the command knows; `null`: the error's own text is safe. */
const withoutValue = (error: CliError.CliError): string | null => {
  switch (error._tag) {
    case "MissingOption":
    case "MissingArgument":
    case "DuplicateOption":
      return null
    case "UnexpectedArgument":
      return "More arguments than it takes"
    case "UnrecognizedOption":
      return "A flag that it does not know"
    case "UnknownSubcommand":
      return "A command that it does not know"
    case "InvalidValue":
      if (error.value === "") return null
      return error.kind === "argument" ? `<${error.option}> cannot be what was given` : `--${error.option} cannot be what was given`
    default:
      return "The command line is ambiguous"
  }
}

/** A filter of ours says the whole problem of a value: its text has the value or the flag in it. */
const saysAll = ({ expected, option, value }: CliError.InvalidValue): boolean =>
  value !== "" && expected.startsWith(`${value} `) || expected.startsWith(`--${option} `)

const problemOf = (error: CliError.CliError, commandPath: ReadonlyArray<string>): string => {
  const source = SECRETS[commandPath[1] ?? ""]
  const problem = source === undefined ? null : withoutValue(error)
  if (problem === null && error._tag === "InvalidValue" && saysAll(error)) return visible(error.expected)
  return problem === null ? error.message.split("\n")[0] ?? "" : `${problem}. ${source}`
}

/** The correct spellings of an unknown word, as far as they can be guessed. */
const suggestionsOf = (error: CliError.CliError, commandPath: ReadonlyArray<string>): ReadonlyArray<string> => {
  if (error._tag === "UnknownSubcommand" && commandPath.length === 1) {
    const meant = meantBy(error.subcommand)
    return meant === null ? [] : [`slipway ${meant}`]
  }
  return "suggestions" in error ? error.suggestions : []
}

/** A mistyped command gets one line. The help is long, so it is shown only on request or if there is no other message. */
const present: CliOutput.Presenter["present"] = (event) => {
  if (event._tag === "Version") return CliOutput.defaultPresenter.present(event)
  const [error] = event._tag === "InvalidInvocation" ? event.errors : []
  if (error === undefined) {
    return Console.log(Help.format(event.helpDoc, event.commandPath.length === 1, styleText("bold", "", { stream: process.stdout }) !== ""))
  }
  const { commandPath } = event
  const meant = suggestionsOf(error, commandPath).join(" or ")
  return Console.error(
    `slipway: ${problemOf(error, commandPath)}.${meant === "" ? "" : ` Did you mean ${meant}?`} See: ${commandPath.join(" ")} --help`
  )
}

const hideProxySecrets = Effect.map(
  Redaction,
  (redactor) => ProxySettings.secretsOf(OutgoingRequest.settings()).forEach((secret) => redactor.learn(secret))
)

/** Runs the command. Every failure has been reported on standard error. */
export const run = (typed: ReadonlyArray<string>) => {
  const args = spelled(typed)
  const note = renamedFrom(typed)
  return hideProxySecrets.pipe(
    Effect.andThen(note === null ? Effect.void : Console.error(note)),
    Effect.andThen(slipway(args)),
    Effect.flatMap((command) => Command.runWith(command, { version: manifest.version })(args)),
    Effect.tapCause(report),
    Logs.atLeast("Warn"),
    Effect.provide(
      Layer.mergeAll(NodeServices.layer, Names.layer, CliOutput.layerPresenter({ present }), Logs.layer.pipe(Layer.tapCause(report)))
    )
  )
}

/**
 * 0 or 1 unless the error says otherwise: 2 if the command line does not say clearly what to work on. An interruption is a normal end,
 * because it stops a service.
 */
export const exitCodeOf = (exit: Exit.Exit<unknown, unknown>): number => {
  if (Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause)) return 0
  const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  return typeof error === "object" && error !== null && "exitCode" in error ? Number(error.exitCode) : 1
}
