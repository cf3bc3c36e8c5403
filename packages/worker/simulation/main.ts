/** `npm run simulate`: runs seeds of the simulation with the real worker, in as many processes as there are processors. */
import type { Result } from "@slipway/testing/simulation/Simulation"
import { fork } from "node:child_process"
import { availableParallelism } from "node:os"
import { parseArgs } from "node:util"
import { plantOf, plants, sow } from "./Plants.ts"

const HELP = `Simulates the whole service under faults; the same seed is the same run.

  npm run simulate -- [--seeds 1000] [--from 1]   many seeds, up to the first that breaks a rule
  npm run simulate -- --seed 17 [--trace]         one seed; --trace prints all that happened
  npm run simulate -- --plant NAME                puts a mistake into a module as it is loaded, and looks for the
                                                  first seed that finds it; with --seed, whether that one does
  npm run simulate -- --plants                    the mistakes that can be put there

  --jobs N   processes; as many as there are processors

Exits with 1 when a rule does not hold, and says how to repeat it. With --plant that is what is expected, and 1 means that no seed
found the mistake.
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
    jobs: { type: "string", default: String(availableParallelism()) },
    trace: { type: "boolean", default: false },
    plant: { type: "string" },
    plants: { type: "boolean", default: false },
    help: { type: "boolean", default: false }
  }
})
if (values.help) {
  process.stdout.write(HELP)
  process.exit(0)
}
if (values.plants) {
  for (const { mistake, name, rule } of plants) process.stdout.write(`${name}\n    ${mistake}\n    breaks "${rule}"\n`)
  process.exit(0)
}

// A reader that stops early, as `head` does, wants no more.
process.stdout.on("error", () => process.exit())

const plant = values.plant === undefined ? null : plantOf(values.plant) ?? null
if (values.plant !== undefined && plant === null) {
  process.stderr.write(`There is no plant ${values.plant}: --plants lists them.\n`)
  process.exit(2)
}
if (plant !== null) sow(plant)
const { failureOf, simulate } = await import("@slipway/testing/simulation/Simulation")
const { simulated } = await import("./SimulatedWorker.ts")
const { Totals } = await import("./Totals.ts")

const from = values.seed === undefined ? number("from", values.from) : number("seed", values.seed)
const seeds = values.seed === undefined ? number("seeds", values.seeds) : 1
const jobs = Math.max(1, Math.min(number("jobs", values.jobs), Math.ceil(seeds / 4)))
const totals = new Totals()
const begun = performance.now()
const rate = () => `${(totals.seeds / (performance.now() - begun) * 1000).toFixed(1)} seeds/s`
let told = begun

/** The report of one process to another about a seed. */
interface Told extends Pick<Result, "broken" | "seed" | "steps" | "millis"> {
  readonly counts: ReadonlyArray<readonly [string, number]>
  readonly failure: string
}
const run = (seed: number): Result => simulate({ ...simulated, seed, trace: values.trace })
const isFound = ({ broken }: Pick<Result, "broken">) => broken !== null && (plant === null || broken.rule === plant.rule)
const failure = (result: Result) => failureOf(result).replace("--trace", plant === null ? "--trace" : `--plant ${plant.name} --trace`)
const toTell = (result: Result): Told => {
  const { broken, counts, millis, seed, steps } = result
  return { broken, seed, steps, millis, counts: Array.from(counts), failure: broken === null ? "" : failure(result) }
}

if (process.send !== undefined) {
  // One of many: the seeds that it is told, one after the other.
  process.on("message", (seed) => process.send?.(toTell(run(Number(seed)))))
  process.on("disconnect", () => process.exit())
} else {
  const found = jobs === 1 ? alone() : await together()
  if (found !== null) process.stdout.write(`${found}\n`)
  if (plant !== null) {
    process.stdout.write(
      found === null
        ? `${totals.seeds} seeds from ${from}, ${rate()}: none found that ${plant.mistake}\n`
        : `${totals.seeds} seeds from ${from}, ${rate()}: found that ${plant.mistake}\n`
    )
  }
  if (found === null && plant === null) {
    process.stdout.write(totals.table)
    const hours = Math.round(totals.millis / 3_600_000)
    process.stdout.write(
      `${totals.seeds} seeds from ${from}, ${totals.steps} steps, ${hours} simulated hours, ${rate()}: every rule held\n`
    )
  }
  process.exitCode = (found === null) === (plant === null) ? 0 : 1
}

function tell(): void {
  if (performance.now() - told < 5000) return
  told = performance.now()
  process.stderr.write(`${totals.seeds} of ${seeds} seeds, ${rate()}\n`)
}

/** The report of the first seed that breaks a rule; `null`: no seed does. */
function alone(): string | null {
  for (let seed = from; seed < from + seeds; seed++) {
    const result = run(seed)
    totals.add(result)
    if (values.trace) process.stdout.write(`${result.trace.join("\n")}\n`)
    if (isFound(result)) return failure(result)
    tell()
  }
  return null
}

/** As `alone`: the lowest seed that breaks a rule is reported, whichever process ran it. */
async function together(): Promise<string | null> {
  let next = from
  let found: Told | null = null
  const { promise, resolve } = Promise.withResolvers<void>()
  const children = Array.from({ length: jobs }, () =>
    fork(new URL(import.meta.url), process.argv.slice(2), {
      // A seed makes much that is soon forgotten: 7% less of a processor (2026-11-24).
      execArgv: ["--max-semi-space-size=64"]
    }))
  let busy = children.length
  for (const child of children) {
    const goOn = () => {
      if (found === null && next < from + seeds) return child.send(next++)
      busy -= 1
      child.disconnect()
      if (busy === 0) resolve()
    }
    child.on("message", (message) => {
      const result = message as Told
      totals.add({ ...result, counts: new Map(result.counts) })
      if (isFound(result) && (found === null || result.seed < found.seed)) found = result
      tell()
      goOn()
    })
    child.on("exit", (code) => {
      if (code === 0) return
      process.stderr.write(`A process of the simulation ended with ${code}.\n`)
      process.exit(1)
    })
    goOn()
  }
  await promise
  const first = found as Told | null
  return first === null ? null : first.failure
}
