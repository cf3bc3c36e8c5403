import { register } from "@slipway/domain/testing/runners/Vitest"
import * as SetupCachesMemory from "../../memory/SetupCachesMemory.ts"
import { KEPT_BYTES, LARGEST_BYTES, suite } from "../../testing/SetupCachesContract.ts"

register(suite("memory", SetupCachesMemory.layer({ maximumBytes: KEPT_BYTES, largest: LARGEST_BYTES })))
