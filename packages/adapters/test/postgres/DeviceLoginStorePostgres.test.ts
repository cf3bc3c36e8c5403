import * as IdsNode from "@slipway/adapters/node/IdsNode"
import * as DeviceLoginStorePostgres from "@slipway/adapters/postgres/DeviceLoginStorePostgres"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as TestPostgres from "@slipway/adapters/testing/TestPostgres"
import { suite } from "@slipway/domain/testing/DeviceLoginStoreContract"
import { register } from "@slipway/domain/testing/runners/Vitest"
import { Layer } from "effect"

register(suite(
  "postgres",
  DeviceLoginStorePostgres.layer.pipe(
    Layer.provideMerge(IdsNode.layer),
    Layer.provideMerge(TestPostgres.layer(Migrations.layer))
  )
))
