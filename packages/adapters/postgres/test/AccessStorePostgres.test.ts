import { assert, it } from "@effect/vitest"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Ids } from "@slipway/domain/ids/Ids"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { AccessFixture, suite } from "@slipway/testing/contracts/access/AccessStoreContract"
import { suite as members } from "@slipway/testing/contracts/access/MemberStoreContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Context, DateTime, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import { database } from "./Stores.ts"

const Fixture = Layer.effect(
  AccessFixture,
  Effect.map(SqlClient.SqlClient, (sql) =>
    AccessFixture.of({
      // The database's clock is not ours to set: what it remembers moves into the past instead.
      elapse: (duration) =>
        Effect.orDie(Effect.asVoid(sql`
          WITH keys AS (UPDATE api_keys SET expires_at = expires_at - ${Duration.toMillis(duration)}::bigint * interval '1 millisecond')
          UPDATE rate_windows SET times = ARRAY(
            SELECT t - ${Duration.toMillis(duration)}::bigint FROM unnest(times) AS t ORDER BY 1)`)),
      now: Effect.orDie(Effect.map(
        sql<{ readonly now: Date }>`SELECT now()::timestamptz(3) AS now`,
        ([row]) => DateTime.makeUnsafe(row!.now)
      ))
    }))
)

const layer = Layer.mergeAll(AccessStorePostgres.layer, Fixture).pipe(
  Layer.provideMerge(IdsNode.layer),
  Layer.provideMerge(database())
)

register(suite("postgres", layer))
register(members("postgres", layer))

it.layer(layer)("the row of a key's rate limit", (it) => {
  it.effect("grows by steps of time, not by requests, above a thousand a minute", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const store = yield* AccessStore
      const ids = yield* Ids
      const { organizationId, userId } = yield* (yield* MemberStore).owner
      const createdAt = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
      const { grant } = yield* store.createGrant({ id: yield* ids.uuid7, name: "busy", organizationId, createdAt })
      const id = yield* ids.uuid7
      const key = { id, grantId: grant.id, userId, label: "", prefix: "sbx_live_", last4: "aB3d", scopes: [], createdAt, expiresAt: null }
      yield* store.createKey(key, ids.digest(id), 1_000_000)
      const began = performance.now()
      yield* Effect.replicateEffect(store.admit(ids.digest(id), { credential: 5000, user: 5000, grant: 5000 }), 300)
      const [row] = yield* sql<{ length: number }>`SELECT cardinality(times) AS length FROM rate_windows WHERE key_id = ${id}`
      const passed = performance.now() - began
      assert.isAtMost(row!.length, Math.ceil(passed / 60) + 1)
      // Shared by all keys of the grant: a tenth of that.
      const [shared] = yield* sql<{ length: number }>`SELECT cardinality(times) AS length FROM rate_windows WHERE key_id = ${grant.id}`
      assert.isAtMost(shared!.length, Math.ceil(passed / 600) + 1)
    }))
})

it.layer(layer)("admission by several processes", (it) => {
  it.effect(
    "requests of the same keys, users and grants in any order never wait for each other, and are counted exactly",
    () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const ids = yield* Ids
        const store = yield* AccessStore
        const { organizationId } = yield* (yield* MemberStore).owner
        const createdAt = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
        const grants = yield* Effect.forEach(
          [0, 1, 2],
          () => Effect.flatMap(ids.uuid7, (id) => store.createGrant({ id, name: id, organizationId, createdAt }))
        )
        const users = yield* Effect.forEach(
          [0, 1, 2],
          Effect.fnUntraced(function*() {
            const id = `user_${yield* ids.ulid}`
            return (yield* (yield* MemberStore).addUser({ id, name: "Grace", email: null, githubLogin: null, createdAt })).id
          })
        )
        const digests = yield* Effect.forEach(
          Array.from({ length: 9 }, (_, i) => i),
          Effect.fnUntraced(function*(i) {
            const id = yield* ids.uuid7
            const of = { grantId: grants[i % 3]!.grant.id, userId: users[Math.floor(i / 3)]! }
            const record = { id, ...of, label: "", prefix: "sbx_live_", last4: "aB3d", scopes: [], createdAt, expiresAt: null }
            yield* store.createKey(record, ids.digest(id), 100)
            return ids.digest(id)
          })
        )
        const limits = { credential: 10_000, user: 10_000, grant: 10_000 }
        const admitAll = (store: AccessStore["Service"], shift: number) =>
          Effect.forEach(
            Array.from({ length: 270 }, (_, i) => digests[(i * (shift % 2 === 0 ? 4 : 5) + shift) % 9]!),
            (digest) => store.admit(digest, limits),
            { concurrency: 27 }
          )
        // The windows are there: making them is not what is looked at.
        yield* admitAll(store, 0)
        const processes = yield* Effect.forEach([1, 2, 3, 4], () => Layer.build(Layer.fresh(AccessStorePostgres.layer)))
        const deadlocks = Effect.map(
          sql<{ readonly deadlocks: bigint }>`
          SELECT deadlocks FROM pg_stat_database WHERE datname = current_database() AND pg_stat_force_next_flush() IS NOT NULL`,
          ([row]) => row?.deadlocks
        )
        const before = yield* deadlocks
        yield* Effect.forEach(processes, (context, i) => admitAll(Context.get(context, AccessStore), i), { concurrency: "unbounded" })
        for (const digest of digests) {
          const admission = yield* store.admit(digest, { ...limits, grant: 1_000_000, user: 1_000_000 })
          assert.strictEqual(admission?.rate.remaining, limits.credential - 5 * 30 - 1)
        }
        assert.strictEqual(yield* deadlocks, before)

        // Those of a key and a grant that are new to a user: each of the statements makes them, or finds them made while it waited.
        for (let round = 0; round < 20; round++) {
          yield* sql`DELETE FROM rate_windows WHERE key_id <> ALL(${sql.literal("ARRAY(SELECT md5(user_id)::uuid FROM api_keys)")})`
          yield* Effect.forEach(
            processes,
            (context) =>
              Effect.replicateEffect(Context.get(context, AccessStore).admit(digests[0]!, limits), 64, { concurrency: "unbounded" }),
            { concurrency: "unbounded" }
          )
        }
        assert.strictEqual(yield* deadlocks, before)
      })
  )
})
