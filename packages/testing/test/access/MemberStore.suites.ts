import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import * as MemberStoreMemory from "@slipway/domain/memory/MemberStoreMemory"
import { suite } from "@slipway/testing/contracts/access/MemberStoreContract"
import * as Layer from "effect/Layer"

export const suites = () => [suite("memory", MemberStoreMemory.layer.pipe(Layer.provideMerge(IdsMemory.layer)))]
