/** The composition root: this process is the `slipway` command. */
import { runQuick } from "./commands/QuickCommands.ts"

const args = process.argv.slice(2)
if (!(await runQuick(args))) {
  const { start } = await import("./Start.ts")
  start(args)
}
