/** The composition root: this process is the `slipway` command. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { exitCodeOf, run } from "./Run.ts"

NodeRuntime.runMain(run(process.argv.slice(2)), {
  disableErrorReporting: true,
  // A command that was interrupted early has set its own exit code.
  teardown: (exit, done) => done(exitCodeOf(exit) || Number(process.exitCode ?? 0))
})
