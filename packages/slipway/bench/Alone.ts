/** Runs one module of rows by itself. */
import { parseArgs } from "node:util"
import { columns } from "../src/commands/Output.ts"
import type { Options } from "./boot/Boot.ts"
import type { Measurement, Side } from "./Measurement.ts"

const median = ({ samples }: Side): number => [...samples].sort((a, b) => a - b)[Math.floor(samples.length / 2)] ?? Number.NaN

export const alone = async (measure: (options: Options) => Promise<ReadonlyArray<Measurement>>): Promise<void> => {
  const { values } = parseArgs({
    options: { quick: { type: "boolean", default: false }, only: { type: "string" }, "data-dir": { type: "string" } }
  })
  const rows = await measure({
    quick: values.quick,
    only: values.only?.split(",") ?? [],
    dataDir: values["data-dir"] ?? null,
    skip: (id, reason) => process.stderr.write(`${id} left out: ${reason}\n`)
  })
  const cells = rows.map(({ better, id, notes, ours, reach, theirs, unit }) => {
    const [mine, others] = [median(ours), theirs === null ? Number.NaN : median(theirs)]
    const ratio = better === "higher" ? mine / others : others / mine
    return [id, `${mine.toFixed(1)} ${unit}`, theirs === null ? "-" : `${others.toFixed(1)} ${theirs.name}`, ratio.toFixed(2),
      Object.entries(reach).map((pair) => pair.join(" ")).join(", "), Object.entries(notes ?? {}).map((pair) => pair.join(": ")).join("; ")]
  })
  process.stdout.write(`${columns([["ID", "OURS", "THEIRS", "RATIO", "REACH", "NOTES"], ...cells])}\n`)
}
