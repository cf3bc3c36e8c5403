import * as SetupCachesMemory from "@slipway/domain/memory/environment/SetupCachesMemory"
import { KEPT_BYTES, LARGEST_BYTES, suite } from "@slipway/testing/contracts/environment/SetupCachesContract"

export const suites = () => [suite("memory", SetupCachesMemory.layer({ maximumBytes: KEPT_BYTES, largest: LARGEST_BYTES }))]
