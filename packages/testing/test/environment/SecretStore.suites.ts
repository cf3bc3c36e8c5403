import { Access } from "@slipway/domain/access/Access"
import * as AccessStoreMemory from "@slipway/domain/memory/AccessStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/HintsMemory"
import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import * as SecretStoreMemory from "@slipway/domain/memory/SecretStoreMemory"
import { suite } from "@slipway/testing/contracts/environment/SecretStoreContract"
import * as Layer from "effect/Layer"

const layer = SecretStoreMemory.layer.pipe(
  Layer.provideMerge(Access.layer),
  Layer.provideMerge(AccessStoreMemory.layer),
  Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsMemory.layer))
)

export const suites = () => [suite("memory", layer)]
