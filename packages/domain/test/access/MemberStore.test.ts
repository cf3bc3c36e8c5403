import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import * as MemberStoreMemory from "@slipway/domain/memory/MemberStoreMemory"
import { suite } from "@slipway/domain/testing/MemberStoreContract"
import { register } from "@slipway/domain/testing/runners/Vitest"
import * as Layer from "effect/Layer"

register(suite("memory", MemberStoreMemory.layer.pipe(Layer.provideMerge(IdsMemory.layer))))
