import * as IdsNode from "@slipway/machine/node/IdsNode"
import { suite } from "@slipway/testing/contracts/access/CiTrustStoreContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Layer } from "effect"
import * as CiTrustStorePostgres from "../src/ci-trust-store/CiTrustStorePostgres.ts"
import { database } from "./Stores.ts"

register(suite("postgres", CiTrustStorePostgres.layer.pipe(Layer.provideMerge(IdsNode.layer), Layer.provideMerge(database()))))
