/**
 * Time to interactive, as public benchmarks of sandboxes measure it: from sending a creation until its stream has the output of the first
 * command. Ours includes a checkout and an agent, which runs the command; it asks no model. Daytona publishes 110 ms (p50), 280 (p95) and
 * 290 (p99) for a sandbox without either, E2B 440, 850 and 990.
 *
 * Alone: `npm run bench -- interactive --quick`.
 */
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import path from "node:path"
import * as Checkout from "../fleet/Checkout.ts"
import * as Interruptible from "../Interruptible.ts"
import type { Measurement } from "../Measurement.ts"
import type { Options } from "../Rows.ts"

const FILES = 200
const checkout = path.resolve(import.meta.dirname, "../..")
/** The prompt does not have the word that the command says. */
const PROMPT = "[[shell printf inter%s active]]"
const OUTPUT = "interactive"

const sorted = (values: ReadonlyArray<number>) => [...values].sort((a, b) => a - b)
/** The smallest value that this share of all does not exceed. */
const percentile = (values: ReadonlyArray<number>, share: number): number =>
  sorted(values)[Math.ceil(values.length * share) - 1] ?? Number.NaN

const figures = (values: ReadonlyArray<number>) =>
  Object.fromEntries([50, 95, 99].map((share) => [`p${share}, ms`, Math.round(percentile(values, share / 100))]))

const one = async (service: Checkout.Service) => {
  const began = performance.now()
  const id = await service.create(PROMPT)
  const took = (await service.said(id, OUTPUT)) - began
  await service.heard(id, "turn.completed")
  return { id, took }
}

const run = Effect.fnUntraced(function*(options: Options) {
  const home = yield* Checkout.temporaryFolder
  const fleet = yield* Checkout.make(checkout)
  const repository = Checkout.makeRepository(path.join(home, "repositories/shop"), FILES)
  const machine = path.join(home, "machine")
  const count = options.quick ? 20 : 100
  return yield* Effect.promise(async () => {
    await fleet.command(machine, "repos", "add", "acme/shop", repository)
    const service = await fleet.start(machine, { SLIPWAY_ISOLATION: "bubblewrap", SLIPWAY_WORKER_SLOTS: String(count + 10) })
    const rows: Array<Measurement> = []
    const row = (
      id: string,
      what: string,
      samples: ReadonlyArray<number>,
      reach: Measurement["reach"],
      notes: Measurement["notes"] = {}
    ) => {
      if (options.only.has(id)) {
        rows.push({ id, what, unit: "ms", better: "lower", ours: { name: "slipway", samples }, theirs: null, reach, notes })
      }
    }
    // The first ones of a process do something for the first time.
    for (let i = 0; i < 3; i++) await service.terminate((await one(service)).id)
    options.say(`interactive, ${count} in sequence`)
    const sequence: Array<number> = []
    for (let i = 0; i < count; i++) {
      const { id, took } = await one(service)
      sequence.push(took)
      await service.terminate(id)
    }
    const what = "creation to the output of the first command, in a box of bubblewrap"
    row("interactive", `${what}, ${count} in sequence`, sequence, { most: 150 }, figures(sequence))
    row("interactive-p99", "the slowest hundredth of those", [percentile(sequence, 0.99)], { most: 400 })
    if (!options.only.has("interactive-burst")) return rows
    options.say(`interactive, ${count} at once`)
    const burst = await Promise.all(Array.from({ length: count }, () => one(service)))
    const took = burst.map((at) => at.took)
    row("interactive-burst", `the same, ${count} at once`, took, {}, figures(took))
    for (const { id } of burst) await service.terminate(id)
    return rows
  })
}, Effect.scoped)

const ROWS = ["interactive", "interactive-p99", "interactive-burst"]

export const measure = (options: Options): Promise<ReadonlyArray<Measurement>> => {
  if (spawnSync("bwrap", ["--version"]).status === 0) return Interruptible.run(run(options))
  for (const id of ROWS) if (options.only.has(id)) options.skip(id, "bubblewrap is not installed.")
  return Promise.resolve([])
}
