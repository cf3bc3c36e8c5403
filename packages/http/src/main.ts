/** The composition root: runs the `slipway` command. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Console, Effect, Exit, Layer } from "effect"
import { CliError, Command } from "effect/cli"
import { Redaction } from "@slipway/adapters/redaction/Redaction"
import * as Logs from "./cli/Logs.ts"
import { slipway } from "./cli/Slipway.ts"
import manifest from "../package.json" with { type: "json" }

/** An expected failure is one line that says what to do; a defect is logged whole. */
const report = Effect.fnUntraced(function*(cause: Cause.Cause<unknown>) {
  const error = Cause.findErrorOption(cause)
  if (error._tag === "None") return Cause.hasInterruptsOnly(cause) ? undefined : yield* Effect.logFatal("slipway broke", cause)
  // The command line's own errors were shown with its help.
  if (CliError.isCliError(error.value)) return
  const redactor = yield* Redaction
  yield* Console.error(redactor.redact(`slipway: ${error.value instanceof Error ? error.value.message : String(error.value)}`))
})

slipway.pipe(
  Command.run({ version: manifest.version }),
  Effect.tapCause(report),
  Logs.atLeast("Warn"),
  Effect.provide(Layer.merge(NodeServices.layer, Logs.layer.pipe(Layer.tapCause(report)))),
  NodeRuntime.runMain({
    disableErrorReporting: true,
    // Being told to stop is what a service is for: it ended well. A command that was not through has set its exit code.
    teardown: (exit, done) =>
      done(Exit.isSuccess(exit) ? 0 : Cause.hasInterruptsOnly(exit.cause) ? Number(process.exitCode ?? 0) : 1)
  })
)
