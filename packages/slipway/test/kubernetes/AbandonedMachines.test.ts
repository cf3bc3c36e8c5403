/** Machines of workers that never came back, as a worker looks for them. */
import { assert, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { Machines } from "@slipway/runner/machines/Machines"
import { Effect, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as AbandonedMachines from "../../src/service/machine/AbandonedMachines.ts"

const [needed, over] = [SandboxId.make("c_aaaaaaaaaaaa"), SandboxId.make("c_bbbbbbbbbbbb")]

it.effect("machines of workers that are gone are ended when the store says that they are unused, also after a look that failed", () =>
  Effect.gen(function*() {
    const ended: Array<ReadonlyArray<string>> = []
    let isAway = false
    const unused = Effect.die("unused")
    const machines = Machines.of({
      isolation: "kubernetes",
      programs: unused,
      ensure: () => unused,
      remove: () => unused,
      list: unused,
      losses: Stream.never,
      removeAbandoned: (unneeded) => Effect.tap(unneeded([needed, over]), (ids) => Effect.sync(() => ended.push(ids)))
    })
    const maintenance = Layer.mock(Maintenance, {
      unneeded: (ids) =>
        Effect.suspend(() => isAway ? Effect.die("the database is away") : Effect.succeed(ids.filter((id) => id !== needed)))
    })
    yield* Layer.build(Layer.provide(AbandonedMachines.layer(machines), maintenance))
    yield* TestClock.adjust("0 seconds")
    assert.deepStrictEqual(ended, [[over]])
    isAway = true
    yield* TestClock.adjust("10 minutes")
    isAway = false
    yield* TestClock.adjust("10 minutes")
    assert.deepStrictEqual(ended, [[over], [over]])
  }))
