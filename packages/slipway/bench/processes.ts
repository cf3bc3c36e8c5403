/** The rows about whole processes by themselves: `node packages/slipway/bench/processes.ts [group or id ...] [--quick]`. */
import { parseArgs } from "node:util"
import { columns } from "../src/commands/Output.ts"
import type { Side } from "./Measurement.ts"
import { groups } from "./ProcessRows.ts"

const median = ({ samples }: Side): number => [...samples].sort((a, b) => a - b)[Math.floor(samples.length / 2)] ?? Number.NaN

const { positionals, values } = parseArgs({ allowPositionals: true, options: { quick: { type: "boolean", default: false } } })
for (const { load, name, rows } of groups) {
  const ids = rows.map(({ id }) => id).filter((id) => positionals.length === 0 || positionals.includes(name) || positionals.includes(id))
  if (ids.length === 0) continue
  const { measure } = await load()
  const measured = await measure({
    quick: values.quick,
    only: new Set(ids),
    say: (line) => process.stderr.write(`${name}: ${line}\n`),
    skip: (id, reason) => process.stderr.write(`${id} left out: ${reason}\n`)
  })
  const cells = measured.map(({ better, id, notes = {}, ours, reach, theirs, unit }) => {
    const [mine, others] = [median(ours), theirs === null ? Number.NaN : median(theirs)]
    const ratio = better === "higher" ? mine / others : others / mine
    return [
      id,
      `${mine.toFixed(1)} ${unit}`,
      theirs === null ? "-" : `${others.toFixed(1)} ${theirs.name}`,
      ratio.toFixed(2),
      Object.entries(reach).map((pair) => pair.join(" ")).join(", "),
      Object.entries(notes).map((pair) => pair.join(": ")).join("; ")
    ]
  })
  process.stdout.write(`${columns([["ID", "OURS", "THEIRS", "RATIO", "REACH", "NOTES"], ...cells])}\n`)
}
