import * as CiTrustStoreMemory from "@slipway/domain/memory/access/CiTrustStoreMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import { suite } from "@slipway/testing/contracts/access/CiTrustStoreContract"
import * as Layer from "effect/Layer"

export const suites = () => [suite("memory", CiTrustStoreMemory.layer.pipe(Layer.provideMerge(IdsMemory.layer)))]
