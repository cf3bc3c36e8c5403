import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { PartnerFixture, suite } from "@slipway/testing/contracts/partner/PartnerStoreContract"
import { checkAttribution } from "@slipway/testing/laws/AttributionLaws"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Deferred, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import * as PartnerStorePostgres from "../src/partner-store/PartnerStorePostgres.ts"
import * as SandboxStorePostgres from "../src/sandbox-store/SandboxStorePostgres.ts"
import { database } from "./Stores.ts"

/** Up to 20 ms, on the server. */
const linger = (sql: SqlClient.SqlClient) => Effect.orDie(Effect.asVoid(sql`SELECT pg_sleep(random() * 0.02)`))

const Fixture = Layer.effect(
  PartnerFixture,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const access = yield* Access
    const ids = yield* Ids
    const store = yield* PartnerStore
    return PartnerFixture.of({
      grant: Effect.orDie(Effect.flatMap(ids.uuid7, (name) => Effect.map(access.createGrant(name), ({ grant }) => grant.id))),
      linger: linger(sql),
      rolledBack: (tell) =>
        store.record(Effect.succeed({ result: undefined, tell }), DateTime.makeUnsafe(0)).pipe(
          Effect.andThen(linger(sql)),
          Effect.andThen(Effect.fail("rolled back" as const)),
          sql.withTransaction,
          Effect.catchIf((error) => error === "rolled back", () => Effect.void),
          Effect.orDie
        ),
      overlapping: Effect.fnUntraced(function*(first, second) {
        const [done, committed] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const earlier = sql.withTransaction(first.pipe(Effect.andThen(Deferred.succeed(done, undefined)), Effect.andThen(linger(sql))))
        const later = sql.withTransaction(Effect.andThen(second, Deferred.await(committed)))
        yield* Effect.all([
          Effect.andThen(earlier, Deferred.succeed(committed, undefined)),
          Effect.andThen(Deferred.await(done), later)
        ], { concurrency: "unbounded" }).pipe(Effect.catchTag("SqlError", Effect.die))
      })
    })
  })
)

const layer = Fixture.pipe(
  Layer.provideMerge(Layer.merge(PartnerStorePostgres.layer, SandboxStorePostgres.layer)),
  Layer.provideMerge(Access.layer),
  Layer.provideMerge(AccessStorePostgres.layer),
  Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
  Layer.provideMerge(database())
)

register(suite("postgres", layer))
register(checkAttribution("postgres", layer, 25))
