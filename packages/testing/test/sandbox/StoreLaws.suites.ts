import { Ids } from "@slipway/domain/ids/Ids"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { StoreFixture } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { checkStore } from "@slipway/testing/laws/Laws"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

const Fixture = Layer.unwrap(Effect.map(Ids, (ids) => Layer.mock(StoreFixture)({ grant: ids.uuid7 })))

const layer = Layer.mergeAll(SandboxStoreMemory.layer, Fixture).pipe(
  Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsMemory.layerSeeded("laws")))
)

export const suites = () => [checkStore("memory", layer)]
