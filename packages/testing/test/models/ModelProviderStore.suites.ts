import * as ModelProviderStoreMemory from "@slipway/domain/memory/models/ModelProviderStoreMemory"
import { suite } from "@slipway/testing/contracts/models/ModelProviderStoreContract"

export const suites = () => [suite("memory", ModelProviderStoreMemory.layer)]
