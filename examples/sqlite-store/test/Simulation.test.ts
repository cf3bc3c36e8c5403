/** The stores in the simulation of a whole service: real workers under faults that a seed chooses. */
import * as StoreClock from "@slipway/domain/sandbox/usecases/StoreClock"
import { failureOf, type Options, simulate } from "@slipway/testing/simulation/Simulation"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import { Effect, Layer } from "effect"
import { test } from "node:test"
import * as Stores from "../src/Stores.ts"

const worker: Options["worker"] = (options) =>
  Effect.flatMap(Layer.build(StoreClock.layer), (clock) => Effect.provide(WorkerNode.start(options), clock))

test("every rule of a whole service holds on these stores, in 10 seeds", () => {
  for (let seed = 1; seed <= 10; seed++) {
    const result = simulate({ seed, worker, stores: Stores.layer(":memory:") })
    if (result.broken !== null) throw new Error(failureOf(result))
  }
})
