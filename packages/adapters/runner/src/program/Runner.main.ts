/**
 * Holds the tree and the processes of one sandbox for a worker elsewhere.
 *
 *     node Runner.main.ts SETTINGS
 *
 * SETTINGS is a file of JSON (`Settings`) with the mode 0600, or `/dev/fd/N`. Prints the address it listens on to standard output, in one
 * line of JSON: `{"host":"10.0.0.2","port":40123,"ways":[]}`, or with `"path"` for a unix socket. Ends all processes and itself with 0 at
 * SIGTERM or SIGINT; if it cannot start, with 1 and a line on standard error.
 */
import * as Runner from "./Runner.ts"
import * as Settings from "./SettingsFile.ts"

const fail = (error: unknown): never => {
  process.stderr.write(`runner: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}

// The program that started this one may stop reading.
process.stdout.on("error", () => {})

let close: () => Promise<void> = async () => {}
const leave = () => void close().then(() => process.exit(0), fail)
process.once("SIGTERM", leave)
process.once("SIGINT", leave)

try {
  const [, , file = ""] = process.argv
  const runner = await Runner.start(Settings.read(file))
  close = runner.close
  process.stdout.write(`${JSON.stringify({ ...runner.address, ways: runner.ways })}\n`)
} catch (error) {
  fail(error)
}
