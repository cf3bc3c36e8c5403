import { suite } from "@slipway/testing/contracts/files/BlobsContract"
import { Layer } from "effect"
import * as IdsNode from "../../src/node/IdsNode.ts"
import { folderLayer, s3Layer } from "./Places.ts"

export const suites = () => [suite("folder", Layer.merge(folderLayer, IdsNode.layer)), suite("s3", Layer.merge(s3Layer, IdsNode.layer))]
