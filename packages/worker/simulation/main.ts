/** `npm run simulate`: runs seeds of the simulation with the real worker. */
import { failureOf, simulate } from "@slipway/domain/testing/Simulation"
import { parseArgs } from "node:util"
import { worker } from "./SimulatedWorker.ts"
import { Totals } from "./Totals.ts"

const HELP = `Simulates the whole service under faults; the same seed is the same run.

  npm run simulate -- [--seeds 1000] [--from 1]   many seeds, up to the first that breaks a rule
  npm run simulate -- --seed 17 [--trace]         one seed; --trace prints all that happened

Exits with 1 when a rule does not hold, and says how to repeat it.
`

const number = (option: string, text: string): number => {
  if (!/^\d{1,9}$/u.test(text)) {
    process.stderr.write(`--${option} takes a number, not ${text}\n`)
    process.exit(2)
  }
  return Number(text)
}

const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    seeds: { type: "string", default: "1000" },
    from: { type: "string", default: "1" },
    trace: { type: "boolean", default: false },
    help: { type: "boolean", default: false }
  }
})
if (values.help) {
  process.stdout.write(HELP)
  process.exit(0)
}

// Whoever reads no further, as `head` does, wants no more.
process.stdout.on("error", () => process.exit())

const from = values.seed === undefined ? number("from", values.from) : number("seed", values.seed)
const seeds = values.seed === undefined ? number("seeds", values.seeds) : 1
const totals = new Totals()
const begun = performance.now()
const rate = () => `${(totals.seeds / (performance.now() - begun) * 1000).toFixed(1)} seeds/s`
let told = begun

for (let seed = from; seed < from + seeds; seed++) {
  const result = simulate({ seed, worker, trace: values.trace })
  totals.add(result)
  if (values.trace) process.stdout.write(`${result.trace.join("\n")}\n`)
  if (result.broken !== null) {
    process.stdout.write(`${failureOf(result)}\n`)
    process.exit(1)
  }
  if (performance.now() - told < 5000) continue
  told = performance.now()
  process.stderr.write(`${totals.seeds} of ${seeds} seeds, ${rate()}\n`)
}

process.stdout.write(totals.table)
const hours = Math.round(totals.millis / 3_600_000)
process.stdout.write(
  `${totals.seeds} seeds from ${from}, ${totals.steps} steps, ${hours} simulated hours, ${rate()}: every rule held\n`
)
