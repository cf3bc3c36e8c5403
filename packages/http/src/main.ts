/** The composition root: runs the `slipway` command. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Console, Effect, Exit, Layer, Logger, References } from "effect"
import { CliError, Command } from "effect/cli"
import { slipway } from "./cli/Slipway.ts"
import manifest from "../package.json" with { type: "json" }

/** Standard output is for what a command prints; logs go to standard error. */
const Logs = Layer.mergeAll(
  Logger.layer([Logger.consolePretty()]),
  Layer.succeed(Logger.LogToStderr, true),
  Layer.succeed(References.MinimumLogLevel, "Warn")
)

/** An expected failure is one line that says what to do; a defect is shown whole. */
const report = (cause: Cause.Cause<unknown>) => {
  const error = Cause.findErrorOption(cause)
  if (error._tag === "None") return Cause.hasInterruptsOnly(cause) ? Effect.void : Console.error(Cause.pretty(cause))
  // The command line's own errors were shown with its help.
  if (CliError.isCliError(error.value)) return Effect.void
  return Console.error(`slipway: ${error.value instanceof Error ? error.value.message : String(error.value)}`)
}

slipway.pipe(
  Command.run({ version: manifest.version }),
  Effect.tapCause(report),
  Effect.provide(Layer.merge(NodeServices.layer, Logs)),
  NodeRuntime.runMain({
    disableErrorReporting: true,
    // Being told to stop is what a service is for: it ended well. A command that was not through has set its exit code.
    teardown: (exit, done) =>
      done(Exit.isSuccess(exit) ? 0 : Cause.hasInterruptsOnly(exit.cause) ? Number(process.exitCode ?? 0) : 1)
  })
)
