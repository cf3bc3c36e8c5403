import { Hints } from "@slipway/domain/Hints"
import { Ids } from "@slipway/domain/Ids"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { checkStore } from "@slipway/domain/testing/Laws"
import { StoreFixture } from "@slipway/domain/testing/SandboxStoreContract"
import { Effect, Layer } from "effect"

const Fixture = Layer.unwrap(Effect.map(Ids, (ids) => Layer.mock(StoreFixture)({ grant: ids.uuid7 })))

checkStore(
  "memory",
  Layer.mergeAll(SandboxStore.layerMemory, Fixture).pipe(
    Layer.provideMerge(Layer.mergeAll(Hints.layerMemory, Ids.layerSeeded("laws")))
  )
)
