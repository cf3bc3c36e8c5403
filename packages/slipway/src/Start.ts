/** Runs the whole command in this process. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { exitCodeOf, run } from "./Run.ts"

export const start = (args: ReadonlyArray<string>): void =>
  NodeRuntime.runMain(run(args), {
    disableErrorReporting: true,
    // A command that was interrupted early has set its own exit code.
    teardown: (exit, done) => done(exitCodeOf(exit) || Number(process.exitCode ?? 0))
  })
