import { suite } from "@slipway/domain/testing/BoardContract"
import { register } from "@slipway/domain/testing/runners/Vitest"
import { layer } from "./Stores.ts"

register(suite("memory", layer))
