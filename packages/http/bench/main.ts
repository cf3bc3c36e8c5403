/** `npm run bench -- <what>`. */
import { parseArgs } from "node:util"

const HELP = `npm run bench -- <what> [--quick]

  api       our server beside hand-written Fastify + pg: the same statements, one durable Postgres, interleaved rounds

  --quick   fewer and shorter rounds: for a look, not for a verdict
  --only    some of get, malformed, unknown, list, create, streams; separated by commas
  --profile folder for a CPU profile of our server
`

const { positionals, values: { only = "", profile = null, quick } } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: "boolean", default: false }, only: { type: "string" }, profile: { type: "string" } }
})

if (positionals.join(" ") === "api") {
  const { run } = await import("./api/Api.ts")
  await run({ quick, only: only.split(",").filter((name) => name !== ""), profile })
} else {
  process.stdout.write(HELP)
  process.exitCode = positionals.length === 0 ? 0 : 1
}
