import * as BlobsMemory from "@slipway/domain/memory/files/BlobsMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import { suite } from "@slipway/testing/contracts/files/BlobsContract"
import * as Layer from "effect/Layer"

export const suites = () => [suite("memory", Layer.merge(BlobsMemory.layer, IdsMemory.layer))]
