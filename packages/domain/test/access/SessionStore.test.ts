import { MemberStore } from "@slipway/domain/access/MemberStore"
import { SessionStore } from "@slipway/domain/access/SessionStore"
import { Ids } from "@slipway/domain/Ids"
import { suite } from "@slipway/domain/testing/SessionStoreContract"
import { Layer } from "effect"

suite("memory", Layer.merge(SessionStore.layerMemory, MemberStore.layerMemory).pipe(Layer.provideMerge(Ids.layerMemory)))
