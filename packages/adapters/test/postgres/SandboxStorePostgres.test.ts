import { assert, it } from "@effect/vitest"
import * as IdsNode from "@slipway/adapters/node/IdsNode"
import * as AccessStorePostgres from "@slipway/adapters/postgres/AccessStorePostgres"
import * as HintsPostgres from "@slipway/adapters/postgres/HintsPostgres"
import * as Migrations from "@slipway/adapters/postgres/Migrations"
import * as SandboxStorePostgres from "@slipway/adapters/postgres/SandboxStorePostgres"
import * as TestPostgres from "@slipway/adapters/testing/TestPostgres"
import { Access } from "@slipway/domain/access/Access"
import { Ids } from "@slipway/domain/Ids"
import { MaxActiveSandboxes } from "@slipway/domain/sandbox/ActiveSandboxes"
import { RETENTION_DAYS } from "@slipway/domain/sandbox/Idempotency"
import { Upkeep } from "@slipway/domain/sandbox/Upkeep"
import * as LeasesContract from "@slipway/domain/testing/LeasesContract"
import { StoreFixture } from "@slipway/domain/testing/SandboxStates"
import { limited, MAX_ACTIVE, suite } from "@slipway/domain/testing/SandboxStoreContract"
import * as UpkeepContract from "@slipway/domain/testing/UpkeepContract"
import { Clock, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as LeasesPostgres from "../../src/postgres/LeasesPostgres.ts"
import * as UpkeepPostgres from "../../src/postgres/UpkeepPostgres.ts"

const Fixture = Layer.effect(
  StoreFixture,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const access = yield* Access
    const ids = yield* Ids
    return StoreFixture.of({
      grant: Effect.orDie(Effect.flatMap(ids.uuid7, (name) => Effect.map(access.createGrant(name), ({ grant }) => grant.id))),
      ageLease: (id, seconds) =>
        Effect.orDie(
          Effect.asVoid(sql`UPDATE sandboxes SET lease_until = lease_until - make_interval(secs => ${seconds}) WHERE id = ${id}`)
        ),
      // The database's clock is not ours to set: what it remembers moves into the past instead.
      ageKeys: (grantId, until) =>
        Effect.orDie(Effect.asVoid(sql`
          UPDATE idempotency_keys SET created_at = created_at - make_interval(
            days => ${until === "before" ? RETENTION_DAYS : 0}, mins => ${until === "before" ? -1 : 2})
          WHERE grant_id = ${grantId}`))
    })
  })
)

const layer = Layer.mergeAll(SandboxStorePostgres.layer, LeasesPostgres.layer, UpkeepPostgres.layer, Fixture).pipe(
  Layer.provideMerge(Access.layer),
  Layer.provideMerge(AccessStorePostgres.layer),
  Layer.provideMerge(Layer.mergeAll(HintsPostgres.layer, IdsNode.layer)),
  Layer.provide(TestPostgres.layer(Migrations.layer))
)

suite("postgres", layer)
LeasesContract.suite("postgres", layer)
UpkeepContract.suite("postgres", layer)
limited("postgres", layer.pipe(Layer.provide(Layer.succeed(MaxActiveSandboxes, MAX_ACTIVE))))

it.live("judges what is due by the database's clock, whatever that of the process says", () =>
  Effect.gen(function*() {
    const upkeep = yield* Upkeep
    const own = yield* Clock.Clock
    for (const days of [-400, 400]) {
      const millis = () => own.currentTimeMillisUnsafe() + days * 86_400_000
      const [{ now: due }, now] = yield* Effect.all([upkeep.due(1), upkeep.now]).pipe(
        Effect.provideService(
          Clock.Clock,
          Object.assign(Object.create(own), { currentTimeMillisUnsafe: millis, currentTimeMillis: Effect.sync(millis) })
        )
      )
      for (const told of [due, now]) assert.isBelow(Math.abs(told.epochMilliseconds - Date.now()), 60_000)
    }
  }).pipe(Effect.provide(layer)), 30_000)
