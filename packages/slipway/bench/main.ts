/** `npm run bench -- <what>`. */
import { parseArgs } from "node:util"

const HELP = `npm run bench -- <what> [--quick]

  api       our server beside hand-written Fastify + pg: the same statements, one durable Postgres, interleaved rounds

  agents    each agent that is installed, beside its model: start, latency to the first word, memory

  fleet     many sandboxes on one machine: slots, bursts, rest, checkpoints, moving to another machine

  environments  what setup costs a sandbox's start, and what caches save of it (10 min): \`npm ci\` of real packages

  pages     the largest pages of a sandbox (3 min): 10,000 events, 500 files changed, Markdown, hostile names and lines; their reply,
            their bytes, their first paint in Chromium

  traces    what traces cost, off and on (4 min): our server beside itself without a line that makes spans

  --before  with fleet and pages: a checkout of another version, installed, to put beside this one
  --quick   fewer and shorter rounds: for a look, not for a verdict
  --only    some of get, malformed, unknown, limited, list, create, streams; of the agents; or of slots, burst,
            rest, checkpoint, moving; separated by commas
  --data-dir  where slipway agents install put them, .slipway of this folder unless said
  --json    with environments: absolute path of a file for all figures and every sample
  --profile folder for a CPU profile of our server
  --help    this text
`

const parse = () => {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        quick: { type: "boolean", default: false },
        only: { type: "string" },
        profile: { type: "string" },
        "data-dir": { type: "string" },
        before: { type: "string" },
        json: { type: "string" },
        help: { type: "boolean", short: "h", default: false }
      }
    })
  } catch (error) {
    // Node goes on to explain how positional arguments that begin with a dash are written.
    const [fault = ""] = (error instanceof Error ? error.message : String(error)).split(/\. |\n/u)
    process.stderr.write(`bench: ${fault.replace(/\.$/u, "")}. See npm run bench -- --help.\n`)
    return null
  }
}

const given = parse()
const what = given?.positionals.join(" ") ?? ""
if (given === null) process.exitCode = 1
else if (what === "api" && !given.values.help) {
  const { only = "", profile = null, quick } = given.values
  const { run } = await import("./api/Api.ts")
  await run({ quick, only: only.split(",").filter((name) => name !== ""), profile })
} else if (what === "agents" && !given.values.help) {
  const { only = "", quick, "data-dir": dataDir = null } = given.values
  const { run } = await import("./agents/Agents.ts")
  await run({ quick, only: only.split(",").filter((name) => name !== ""), dataDir })
} else if (what === "fleet" && !given.values.help) {
  const { before = null, only = "", quick } = given.values
  const { run } = await import("./fleet/Fleet.ts")
  await run({ quick, only: only.split(",").filter((name) => name !== ""), before })
} else if (what === "environments" && !given.values.help) {
  const { json = null, quick } = given.values
  const { run } = await import("./environments/Environments.ts")
  await run({ quick, json })
} else if (what === "pages" && !given.values.help) {
  const { run } = await import("./pages/Pages.ts")
  const { before = null, quick } = given.values
  await run({ quick, before })
} else if (what === "traces" && !given.values.help) {
  const { run } = await import("./traces/Traces.ts")
  await run({ quick: given.values.quick })
} else {
  process.stdout.write(HELP)
  process.exitCode = what === "" || given.values.help ? 0 : 1
}
