import * as DeviceLoginStoreMemory from "@slipway/domain/memory/DeviceLoginStoreMemory"
import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import { suite } from "@slipway/domain/testing/DeviceLoginStoreContract"
import { Layer } from "effect"

suite("memory", DeviceLoginStoreMemory.layer.pipe(Layer.provideMerge(IdsMemory.layer)))
