import * as IdsNode from "@slipway/machine/node/IdsNode"
import { suite } from "@slipway/testing/contracts/access/SessionStoreContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Layer } from "effect"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import * as SessionStorePostgres from "../src/session-store/SessionStorePostgres.ts"
import { database } from "./Stores.ts"

register(suite(
  "postgres",
  Layer.merge(SessionStorePostgres.layer, AccessStorePostgres.layer).pipe(
    Layer.provideMerge(IdsNode.layer),
    Layer.provideMerge(database())
  )
))
