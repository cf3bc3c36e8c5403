/** The composition root: this process is the `slipway` command. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { exitCodeOf, run } from "./Run.ts"

NodeRuntime.runMain(run(process.argv.slice(2)), {
  disableErrorReporting: true,
  // A command that was told to stop before it was through has set its own.
  teardown: (exit, done) => done(exitCodeOf(exit) || Number(process.exitCode ?? 0))
})
