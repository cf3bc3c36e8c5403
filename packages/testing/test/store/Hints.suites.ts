import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { suite } from "@slipway/testing/contracts/store/HintsContract"

export const suites = () => [suite("memory", HintsMemory.layer)]
