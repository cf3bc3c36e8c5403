/**
 * Holds the tree and the processes of one sandbox for a worker elsewhere.
 *
 *     node RunnerProgram.ts SETTINGS
 *
 * SETTINGS is a file of JSON (`Settings`) with the mode 0600, or `/dev/fd/N`. Says on standard output where it listens, in one line of
 * JSON: `{"host":"10.0.0.2","port":40123,"ways":[]}`, or with `"path"` where that is a socket. Ends all processes and itself at SIGTERM
 * or SIGINT, with 0; where it cannot begin, with 1 and a line on standard error.
 */
import * as Runner from "./Runner.ts"
import * as Settings from "./Settings.ts"

const fail = (error: unknown): never => {
  process.stderr.write(`runner: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}

// Whoever starts it may stop reading.
process.stdout.on("error", () => {})

try {
  const runner = await Runner.start(Settings.read(process.argv[2] ?? ""))
  const { address, ways } = runner
  const leave = () => void runner.close().then(() => process.exit(0), fail)
  process.once("SIGTERM", leave)
  process.once("SIGINT", leave)
  process.stdout.write(`${JSON.stringify({ ...address, ways })}\n`)
} catch (error) {
  fail(error)
}
