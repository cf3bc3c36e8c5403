import { assert, it } from "@effect/vitest"
import { DateTime, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as IdsNode from "@slipway/adapters/node/IdsNode"
import * as AccessStorePostgres from "@slipway/adapters/postgres/AccessStorePostgres"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as TestPostgres from "@slipway/adapters/testing/TestPostgres"
import { AccessStore } from "@slipway/domain/access/AccessStore"
import { Ids } from "@slipway/domain/Ids"
import { AccessFixture, MembershipFixture, memberships, suite } from "@slipway/domain/testing/AccessStoreContract"

const Fixture = Layer.effect(
  AccessFixture,
  Effect.map(SqlClient.SqlClient, (sql) =>
    AccessFixture.of({
      // The database's clock is not ours to set: what it remembers moves into the past instead.
      elapse: (duration) =>
        Effect.orDie(Effect.asVoid(sql`
          UPDATE rate_windows SET times = ARRAY(
            SELECT t - ${Duration.toMillis(duration)}::bigint FROM unnest(times) AS t ORDER BY 1)`))
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
  Layer.provideMerge(TestPostgres.layer(Migrations.layer))
)

suite("postgres", layer)
memberships("postgres", layer)

it.layer(layer)("the row of a key's rate limit", (it) => {
  it.effect("grows by steps of time, not by requests, above a thousand a minute", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const store = yield* AccessStore
      const ids = yield* Ids
      const { organizationId, userId } = yield* store.owner
      const createdAt = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
      const { grant } = yield* store.createGrant({ id: yield* ids.uuid7, name: "busy", organizationId, createdAt })
      const id = yield* ids.uuid7
      const key = { id, grantId: grant.id, userId, label: "", prefix: "sbx_live_", last4: "aB3d", scopes: [], createdAt }
      yield* store.createKey(key, ids.digest(id))
      const began = performance.now()
      yield* Effect.replicateEffect(store.admit(ids.digest(id), 5000), 300)
      const [row] = yield* sql<{ length: number }>`SELECT cardinality(times) AS length FROM rate_windows WHERE key_id = ${id}`
      assert.isAtMost(row!.length, Math.ceil((performance.now() - began) / 60) + 1)
    }))
})
