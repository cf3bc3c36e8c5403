import * as IdsNode from "@slipway/adapters/node/IdsNode"
import * as AccessStorePostgres from "@slipway/adapters/postgres/access-store/AccessStorePostgres"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as SessionStorePostgres from "@slipway/adapters/postgres/session-store/SessionStorePostgres"
import * as TestPostgres from "@slipway/adapters/testing/TestPostgres"
import { suite } from "@slipway/testing/contracts/access/SessionStoreContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Layer } from "effect"

register(suite(
  "postgres",
  Layer.merge(SessionStorePostgres.layer, AccessStorePostgres.layer).pipe(
    Layer.provideMerge(IdsNode.layer),
    Layer.provideMerge(TestPostgres.layer(Migrations.layer))
  )
))
