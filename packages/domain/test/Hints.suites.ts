import * as HintsMemory from "@slipway/domain/memory/HintsMemory"
import { suite } from "@slipway/domain/testing/HintsContract"

export const suites = () => [suite("memory", HintsMemory.layer)]
