import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { suite } from "@slipway/testing/contracts/access/SessionStoreContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Layer } from "effect"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import * as Migrations from "../src/Migrations.ts"
import * as SessionStorePostgres from "../src/session-store/SessionStorePostgres.ts"

register(suite(
  "postgres",
  Layer.merge(SessionStorePostgres.layer, AccessStorePostgres.layer).pipe(
    Layer.provideMerge(IdsNode.layer),
    Layer.provideMerge(TestPostgres.layer(Migrations.layer))
  )
))
