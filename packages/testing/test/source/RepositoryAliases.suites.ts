import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as RepositoryAliasesMemory from "@slipway/domain/memory/source/RepositoryAliasesMemory"
import { suite } from "@slipway/testing/contracts/source/RepositoryAliasesContract"
import * as Layer from "effect/Layer"

export const suites = () => [suite("memory", Layer.merge(RepositoryAliasesMemory.layer, IdsMemory.layer))]
