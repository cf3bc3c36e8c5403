import { assert, it } from "@effect/vitest"
import type { MachinesKubernetes } from "@slipway/adapters/kubernetes/MachinesKubernetes"
import * as HintsMemory from "@slipway/domain/memory/HintsMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/SandboxStoreMemory"
import { HostError } from "@slipway/domain/sandbox/SandboxHost"
import { SandboxId } from "@slipway/domain/SandboxId"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as AbandonedMachines from "../../src/service/AbandonedMachines.ts"

it.effect("every five minutes whoever removes machines is told which sandboxes the store calls over, also after it failed", () => {
  const told: Array<ReadonlyArray<readonly [SandboxId, unknown]>> = []
  const id = SandboxId.make("c_222222222222")
  const removeAbandoned: MachinesKubernetes["removeAbandoned"] = (standing) =>
    Effect.flatMap(standing([id]), (of) => {
      told.push([...of])
      return Effect.fail(new HostError({ operation: "list", detail: "The cluster is busy.", retryable: true }))
    })
  return Effect.gen(function*() {
    const store = SandboxStoreMemory.layer.pipe(Layer.provide(HintsMemory.layer))
    yield* Layer.build(AbandonedMachines.layer(removeAbandoned, "machine-1").pipe(Layer.provide(store)))
    yield* TestClock.adjust("4 minutes")
    assert.lengthOf(told, 0)
    yield* TestClock.adjust("6 minutes")
    assert.deepStrictEqual(told, [[[id, "over"]], [[id, "over"]]])
  }).pipe(Effect.scoped)
})
