import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as IdsNode from "@slipway/adapters/node/IdsNode"
import * as AccessStorePostgres from "@slipway/adapters/postgres/AccessStorePostgres"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as TestPostgres from "@slipway/adapters/testing/TestPostgres"
import { Ids } from "@slipway/domain/Ids"
import { AccessFixture, MembershipFixture, memberships, suite } from "@slipway/domain/testing/AccessStoreContract"

const Fixture = Layer.effect(
  AccessFixture,
  Effect.map(SqlClient.SqlClient, (sql) =>
    AccessFixture.of({
      // The database's clock is not ours to set: what it remembers moves into the past instead.
      elapse: (duration) =>
        Effect.orDie(Effect.asVoid(sql`
          UPDATE rate_windows SET accepted = ARRAY(
            SELECT t - ${Duration.toMillis(duration)}::bigint FROM unnest(accepted) AS t ORDER BY 1)`))
    }))
)

const Memberships = Layer.effect(
  MembershipFixture,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const ids = yield* Ids
    return MembershipFixture.of({
      join: (organizationId) =>
        Effect.gen(function*() {
          const userId = `user_${yield* ids.ulid}`
          yield* sql`INSERT INTO users (id, name) VALUES (${userId}, 'member')`
          yield* sql`INSERT INTO memberships (organization_id, user_id) VALUES (${organizationId}, ${userId})`
          return userId
        }).pipe(Effect.orDie),
      deactivate: (organizationId, userId) =>
        Effect.orDie(Effect.asVoid(sql`
          UPDATE memberships SET active = false WHERE organization_id = ${organizationId} AND user_id = ${userId}`))
    })
  })
)

const layer = Layer.mergeAll(AccessStorePostgres.layer, Fixture, Memberships).pipe(
  Layer.provideMerge(IdsNode.layer),
  Layer.provide(TestPostgres.layer(Migrations.layer))
)

suite("postgres", layer)
memberships("postgres", layer)
