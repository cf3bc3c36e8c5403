import * as MemberStoreMemory from "@slipway/domain/memory/access/MemberStoreMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import { suite } from "@slipway/testing/contracts/access/MemberStoreContract"
import * as Layer from "effect/Layer"

export const suites = () => [suite("memory", MemberStoreMemory.layer.pipe(Layer.provideMerge(IdsMemory.layer)))]
