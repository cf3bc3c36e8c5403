/** The composition root: this process is the `slipway` command. */
import * as OutgoingNetwork from "@slipway/machine/network/OutgoingNetwork"
import { runQuick } from "./commands/QuickCommands.ts"

const args = process.argv.slice(2)
const problem = await OutgoingNetwork.prepare()
if (problem !== null) {
  process.stderr.write(`slipway: ${problem}\n`)
  process.exitCode = 1
} else if (!(await runQuick(args))) {
  const { start } = await import("./Start.ts")
  start(args)
}
