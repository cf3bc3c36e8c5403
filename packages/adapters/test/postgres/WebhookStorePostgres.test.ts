import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as IdsNode from "@slipway/adapters/node/IdsNode"
import * as AccessStorePostgres from "@slipway/adapters/postgres/AccessStorePostgres"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as PartnerStorePostgres from "@slipway/adapters/postgres/PartnerStorePostgres"
import * as WebhookStorePostgres from "@slipway/adapters/postgres/WebhookStorePostgres"
import * as TestPostgres from "@slipway/adapters/testing/TestPostgres"
import { Access } from "@slipway/domain/access/Access"
import { Hints } from "@slipway/domain/Hints"
import { suite, WebhookFixture } from "@slipway/domain/testing/WebhookStoreContract"

const Fixture = Layer.effect(
  WebhookFixture,
  Effect.map(SqlClient.SqlClient, (sql) =>
    WebhookFixture.of({
      expireClaims: Effect.orDie(Effect.andThen(
        sql`UPDATE webhook_endpoints SET claimed_until = now() WHERE claimed_until IS NOT NULL`,
        Effect.asVoid(sql`UPDATE webhook_redeliveries SET claimed_until = now() WHERE claimed_until IS NOT NULL`)
      ))
    }))
)

suite(
  "postgres",
  Layer.mergeAll(Fixture, PartnerStorePostgres.layer, WebhookStorePostgres.layer).pipe(
    Layer.provideMerge(Access.layer),
    Layer.provideMerge(AccessStorePostgres.layer),
    Layer.provideMerge(Layer.mergeAll(Hints.layerMemory, IdsNode.layer)),
    Layer.provideMerge(TestPostgres.layer(Migrations.layer))
  )
)
