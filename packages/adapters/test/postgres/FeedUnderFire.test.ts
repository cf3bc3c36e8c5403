/**
 * Many writers, some rolled back, and readers that follow by their cursor. `npm run test:feed` does it with 30,000 events.
 */
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as IdsNode from "@slipway/adapters/node/IdsNode"
import * as AccessStorePostgres from "@slipway/adapters/postgres/AccessStorePostgres"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as PartnerStorePostgres from "@slipway/adapters/postgres/PartnerStorePostgres"
import * as TestPostgres from "@slipway/adapters/testing/TestPostgres"
import { Access } from "@slipway/domain/access/Access"
import { Hints } from "@slipway/domain/Hints"
import { Ids } from "@slipway/domain/Ids"
import { PartnerStore } from "@slipway/domain/partner/PartnerStore"
import { faultOf } from "@slipway/domain/testing/PartnerStoreContract"

/** Writes of each of 16 writers; nine of ten are kept. */
const EACH = Number(process.env["FEED_WRITES"] ?? 1920) / 16
const PAGE = 100

const layer = Layer.mergeAll(PartnerStorePostgres.layer, Access.layer).pipe(
  Layer.provideMerge(AccessStorePostgres.layer),
  Layer.provideMerge(Layer.mergeAll(Hints.layerMemory, IdsNode.layer)),
  Layer.provideMerge(TestPostgres.layer(Migrations.layer))
)

/** Up to 20 ms on the server, now and then. */
const linger = (sql: SqlClient.SqlClient, n: number) => Effect.when(sql`SELECT pg_sleep(random() * 0.02)`, Effect.succeed(n % 10 === 7))

/** `write` in a transaction that takes a moment to end, and is rolled back unless it is to be kept. */
const ending = <A, E, R>(sql: SqlClient.SqlClient, write: Effect.Effect<A, E, R>, n: number, kept: boolean) =>
  write.pipe(
    Effect.andThen(linger(sql, n)),
    Effect.andThen(kept ? Effect.void : Effect.fail("rolled back" as const)),
    sql.withTransaction,
    Effect.catchIf((error) => error === "rolled back", () => Effect.void)
  )

it.layer(layer)("a feed under fire", (it) => {
  it.effect("nothing is missed, nothing comes twice, the order is kept and the numbers are 1 to n", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const store = yield* PartnerStore
      const ids = yield* Ids
      const { grant } = yield* (yield* Access).createGrant("fire")
      const fault = yield* faultOf({
        write: (n, kept) =>
          Effect.flatMap(ids.uuid7, (claimId) =>
            ending(sql, store.createClaim({ claimId, grantId: grant.id, leadId: `${n}`, variant: "a", creditAmount: 1 }), n, kept)),
        read: (after) => Effect.map(store.feed(grant.id, after, PAGE), (events) =>
          events.map(({ data: { leadId }, sequence }) => ({ sequence, n: Number(leadId) })))
      }, EACH)
      assert.isNull(fault)
    }), 600_000)

  it.effect("the same readers miss events of a feed that takes its numbers from a sequence", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE naive (sequence integer GENERATED ALWAYS AS IDENTITY, n integer NOT NULL)`
      const fault = yield* faultOf({
        write: (n, kept) => ending(sql, sql`INSERT INTO naive (n) VALUES (${n})`, n, kept),
        read: (after) => sql<{ readonly sequence: number; readonly n: number }>`
          SELECT sequence, n FROM naive WHERE sequence > ${after} ORDER BY sequence LIMIT ${PAGE}`
      }, EACH)
      assert.match(fault ?? "", /^a reader missed/u)
    }), 600_000)
})
