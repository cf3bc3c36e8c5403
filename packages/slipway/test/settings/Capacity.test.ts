import { assert, it } from "@effect/vitest"
import { ConfigProvider, Effect } from "effect"
import { availableParallelism, totalmem } from "node:os"
import * as Capacity from "../../src/service/machine/Capacity.ts"
import * as Settings from "../../src/settings/Settings.ts"

const GIB = 2 ** 30
const unset = { workerSlots: null }
const on = (gib: number, processors = 1) => ({ memory: gib * GIB, processors })

it("a worker has a slot for each GiB of memory, but 4 at least and 32 at most", () => {
  const expected = [[0.5, 4], [4, 4], [4.4, 4], [4.6, 5], [7.8, 8], [16, 16], [31.4, 31], [32, 32], [512, 32]] as const
  for (const [gib, slots] of expected) assert.strictEqual(Capacity.of(unset, on(gib)).slots, slots, `${gib} GiB`)
})

it("it keeps four agents alive for each slot, and boots two sandboxes at once for each processor", () => {
  assert.deepStrictEqual(Capacity.of(unset, on(8, 3)), { slots: 8, agents: 32, boots: 6 })
  assert.deepStrictEqual(Capacity.of({ workerSlots: 3 }, on(8, 1)), { slots: 3, agents: 12, boots: 2 })
})

it("a set number of slots goes before that of the machine, beyond its bounds too", () => {
  assert.deepStrictEqual(Capacity.of({ workerSlots: 100 }, on(2, 64)), { slots: 100, agents: 400, boots: 128 })
  assert.deepStrictEqual(Capacity.of({ workerSlots: 1 }, on(64, 64)), { slots: 1, agents: 4, boots: 128 })
})

it("the machine is this one, or the part of it that its control group has", () => {
  const memory = Math.min(process.constrainedMemory() || Infinity, totalmem())
  assert.deepStrictEqual(Capacity.of(unset), Capacity.of(unset, { memory, processors: availableParallelism() }))
})

it.effect("the slots cannot be set to 0, or to an invalid number", () =>
  Effect.gen(function*() {
    const load = (environment: Readonly<Record<string, string>>) =>
      Effect.provide(Settings.load, ConfigProvider.layer(ConfigProvider.fromUnknown(environment)))
    assert.isNull((yield* load({})).workerSlots)
    for (const wrong of ["0", "-1", "1.5", "many"]) {
      assert.strictEqual((yield* Effect.flip(load({ SLIPWAY_WORKER_SLOTS: wrong }))).setting, "SLIPWAY_WORKER_SLOTS", wrong)
    }
    assert.strictEqual((yield* load({ SLIPWAY_WORKER_SLOTS: "1" })).workerSlots, 1)
  }))
