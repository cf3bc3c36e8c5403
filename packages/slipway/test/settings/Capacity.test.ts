import { assert, it } from "@effect/vitest"
import { ConfigProvider, Effect } from "effect"
import { availableParallelism, totalmem } from "node:os"
import * as Capacity from "../../src/service/machine/Capacity.ts"
import * as Settings from "../../src/settings/Settings.ts"

const GIB = 2 ** 30
const unset = { workerSlots: null, workerAgents: null, workerBoots: null }
const on = (gib: number, processors = 1) => ({ memory: gib * GIB, processors })

it("a worker has a slot for each GiB of memory, but 4 at least and 32 at most", () => {
  const expected = [[0.5, 4], [4, 4], [4.4, 4], [4.6, 5], [7.8, 8], [16, 16], [31.4, 31], [32, 32], [512, 32]] as const
  for (const [gib, slots] of expected) assert.strictEqual(Capacity.of(unset, on(gib)).slots, slots, `${gib} GiB`)
})

it("it keeps four agents alive for each slot, and boots two sandboxes at once for each processor", () => {
  assert.deepStrictEqual(Capacity.of(unset, on(8, 3)), { slots: 8, agents: 32, boots: 6 })
  assert.deepStrictEqual(Capacity.of({ ...unset, workerSlots: 3 }, on(8, 1)), { slots: 3, agents: 12, boots: 2 })
})

it("settings go before what the machine has, beyond its bounds too", () => {
  const set = { workerSlots: 100, workerAgents: 150, workerBoots: 7 }
  assert.deepStrictEqual(Capacity.of(set, on(2, 64)), { slots: 100, agents: 150, boots: 7 })
  assert.deepStrictEqual(Capacity.of({ workerSlots: 1, workerAgents: 1, workerBoots: 1 }, on(64, 64)), { slots: 1, agents: 1, boots: 1 })
})

it("every slot can have an agent, however few agents are set", () => {
  assert.strictEqual(Capacity.of({ ...unset, workerAgents: 2 }, on(8)).agents, 8)
  assert.strictEqual(Capacity.of({ ...unset, workerSlots: 5, workerAgents: 5 }, on(8)).agents, 5)
})

it("the machine is this one, or the part of it that its control group has", () => {
  const memory = Math.min(process.constrainedMemory() || Infinity, totalmem())
  assert.deepStrictEqual(Capacity.of(unset), Capacity.of(unset, { memory, processors: availableParallelism() }))
})

it.effect("none of them can be set to nothing, or to what is no number of sandboxes", () =>
  Effect.gen(function*() {
    const load = (environment: Readonly<Record<string, string>>) =>
      Effect.provide(Settings.load, ConfigProvider.layer(ConfigProvider.fromUnknown(environment)))
    const { workerAgents, workerBoots, workerSlots } = yield* load({})
    assert.deepStrictEqual({ workerAgents, workerBoots, workerSlots }, unset)
    for (const name of ["SLIPWAY_WORKER_SLOTS", "SLIPWAY_WORKER_AGENTS", "SLIPWAY_WORKER_BOOTS"]) {
      for (const wrong of ["0", "-1", "1.5", "many"]) {
        assert.strictEqual((yield* Effect.flip(load({ [name]: wrong }))).setting, name, wrong)
      }
    }
    const set = yield* load({ SLIPWAY_WORKER_SLOTS: "1", SLIPWAY_WORKER_AGENTS: "2", SLIPWAY_WORKER_BOOTS: "3" })
    assert.deepStrictEqual(Capacity.of(set), { slots: 1, agents: 2, boots: 3 })
  }))
