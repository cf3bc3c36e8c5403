import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import * as MemberStoreMemory from "@slipway/domain/memory/MemberStoreMemory"
import * as SessionStoreMemory from "@slipway/domain/memory/SessionStoreMemory"
import { register } from "@slipway/domain/testing/runners/Vitest"
import { suite } from "@slipway/domain/testing/SessionStoreContract"
import * as Layer from "effect/Layer"

register(suite("memory", Layer.merge(SessionStoreMemory.layer, MemberStoreMemory.layer).pipe(Layer.provideMerge(IdsMemory.layer))))
