import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import * as MemberStoreMemory from "@slipway/domain/memory/MemberStoreMemory"
import * as SessionStoreMemory from "@slipway/domain/memory/SessionStoreMemory"
import { suite } from "@slipway/testing/contracts/access/SessionStoreContract"
import * as Layer from "effect/Layer"

const layer = Layer.merge(SessionStoreMemory.layer, MemberStoreMemory.layer).pipe(Layer.provideMerge(IdsMemory.layer))

export const suites = () => [suite("memory", layer)]
