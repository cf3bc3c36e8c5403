import * as DeviceLoginStoreMemory from "@slipway/domain/memory/access/DeviceLoginStoreMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import { suite } from "@slipway/testing/contracts/access/DeviceLoginStoreContract"
import * as Layer from "effect/Layer"

export const suites = () => [suite("memory", DeviceLoginStoreMemory.layer.pipe(Layer.provideMerge(IdsMemory.layer)))]
