import * as AuditLogMemory from "@slipway/domain/memory/access/AuditLogMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as SandboxRows from "@slipway/domain/memory/sandbox/SandboxRows"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import * as DurabilityContract from "@slipway/testing/contracts/sandbox/DurabilityContract"
import { register } from "@slipway/testing/runners/Vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { fixture } from "./Stores.ts"

/** Everything ends except the rows and the audit log. */
const storage = Layer.effect(
  DurabilityContract.Storage,
  Effect.gen(function*() {
    const rows = SandboxRows.make()
    const kept = yield* Layer.build(Layer.mergeAll(AuditLogMemory.layer, IdsMemory.layer))
    return DurabilityContract.Storage.of({
      start: Effect.map(
        Layer.build(
          Layer.merge(SandboxStoreMemory.over(rows), fixture(rows)).pipe(
            Layer.provideMerge(Layer.mergeAll(Layer.succeedContext(kept), HintsMemory.layer))
          )
        ),
        (stores) => ({ stores, killAtWrite: () => Effect.die("it dies whole") })
      )
    })
  })
)

register(DurabilityContract.suite("memory", storage, {
  diesWhole: "a process that dies leaves no rows, and nothing else runs between the first write of a call and its last"
}))
