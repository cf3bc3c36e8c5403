import { MemberStore } from "@slipway/domain/access/MemberStore"
import { Ids } from "@slipway/domain/Ids"
import { suite } from "@slipway/domain/testing/MemberStoreContract"
import { Layer } from "effect"

suite("memory", MemberStore.layerMemory.pipe(Layer.provideMerge(Ids.layerMemory)))
