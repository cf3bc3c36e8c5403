import * as MemberStoreMemory from "@slipway/domain/memory/access/MemberStoreMemory"
import * as SessionStoreMemory from "@slipway/domain/memory/access/SessionStoreMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import { suite } from "@slipway/testing/contracts/access/SessionStoreContract"
import * as Layer from "effect/Layer"

const layer = Layer.merge(SessionStoreMemory.layer, MemberStoreMemory.layer).pipe(Layer.provideMerge(IdsMemory.layer))

export const suites = () => [suite("memory", layer)]
