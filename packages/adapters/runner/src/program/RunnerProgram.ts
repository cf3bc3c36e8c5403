/**
 * Holds the tree and the processes of one sandbox for a worker elsewhere.
 *
 *     node RunnerProgram.ts SETTINGS [MACHINE]
 *
 * SETTINGS is a file of JSON (`Settings`) with the mode 0600, or `/dev/fd/N`. Says on standard output where it listens, in one line of
 * JSON: `{"host":"10.0.0.2","port":40123,"ways":[]}`, or with `"path"` where that is a socket. One that waits for its sandbox
 * (`Waiting`) says `{"host":"10.0.0.2","port":40123,"waits":true}` first; MACHINE is what it is adopted by. Ends all processes and itself
 * at SIGTERM or SIGINT, with 0; where it cannot begin, with 1 and a line on standard error.
 */
import * as Runner from "./Runner.ts"
import * as Settings from "./Settings.ts"
import * as Waiting from "./Waiting.ts"

const fail = (error: unknown): never => {
  process.stderr.write(`runner: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}

// Whoever starts it may stop reading.
process.stdout.on("error", () => {})

let close: () => Promise<void> = async () => {}
const leave = () => void close().then(() => process.exit(0), fail)
process.once("SIGTERM", leave)
process.once("SIGINT", leave)

const say = (told: object) => process.stdout.write(`${JSON.stringify(told)}\n`)

try {
  const [, , file = "", machine = null] = process.argv
  const told = Settings.read(file)
  const first = told.waits ? await Waiting.start(told.settings, machine) : await Runner.start(told.settings)
  close = async () => first.close()
  if ("adopted" in first) say({ ...first.address, waits: true })
  const runner = "adopted" in first ? await first.adopted : first
  close = runner.close
  say({ ...runner.address, ways: runner.ways })
} catch (error) {
  fail(error)
}
