import * as HostConnectionsMemory from "@slipway/domain/memory/environment/HostConnectionsMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import { suite } from "@slipway/testing/contracts/environment/HostConnectionsContract"
import * as Layer from "effect/Layer"

export const suites = () => [suite("memory", Layer.merge(HostConnectionsMemory.layer, IdsMemory.layer))]
