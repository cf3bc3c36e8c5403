import { Access } from "@slipway/domain/access/usecases/Access"
import * as AccessStoreMemory from "@slipway/domain/memory/access/AccessStoreMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as McpServerStoreMemory from "@slipway/domain/memory/mcp/McpServerStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { suite } from "@slipway/testing/contracts/mcp/McpServerStoreContract"
import * as Layer from "effect/Layer"

const layer = McpServerStoreMemory.layer.pipe(
  Layer.provideMerge(Access.layer),
  Layer.provideMerge(AccessStoreMemory.layer),
  Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsMemory.layer))
)

export const suites = () => [suite("memory", layer)]
