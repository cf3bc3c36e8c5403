import { Layer } from "effect"
import * as IdsNode from "@slipway/adapters/node/IdsNode"
import * as MemberStorePostgres from "@slipway/adapters/postgres/MemberStorePostgres"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as SessionStorePostgres from "@slipway/adapters/postgres/SessionStorePostgres"
import * as TestPostgres from "@slipway/adapters/testing/TestPostgres"
import { suite } from "@slipway/domain/testing/SessionStoreContract"

suite(
  "postgres",
  Layer.merge(SessionStorePostgres.layer, MemberStorePostgres.layer).pipe(
    Layer.provideMerge(IdsNode.layer),
    Layer.provideMerge(TestPostgres.layer(Migrations.layer))
  )
)
