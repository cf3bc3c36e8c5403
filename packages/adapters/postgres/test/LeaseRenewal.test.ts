import { assert, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { Deferred, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "../src/Database.ts"
import * as HintsPostgres from "../src/HintsPostgres.ts"
import * as LeasesPostgres from "../src/leases/LeasesPostgres.ts"
import * as Migrations from "../src/Migrations.ts"

/** One of them listens for hints. */
const WRITING = 3

const layer = LeasesPostgres.layer.pipe(
  Layer.provide(Layer.merge(HintsPostgres.layer, IdsNode.layer)),
  Layer.provideMerge(Layer.unwrap(Effect.map(
    TestPostgres.database(Migrations.layer),
    (url) => Database.layer({ url: Redacted.make(url) }, { writing: WRITING })
  )))
)

it.live("leases are renewed while everything else a worker does waits for a connection", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const leases = yield* Leases
    const lease = { sandboxId: SandboxId.make("c_222222222222"), fence: 1 }
    const release = yield* Deferred.make<void>()
    const taken = yield* Effect.forEach(Array.from({ length: WRITING - 1 }), () => Deferred.make<void>())
    yield* Effect.forEach(taken, (begun) =>
      Effect.forkScoped(sql.withTransaction(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(release)))))
    yield* Effect.forEach(taken, Deferred.await)
    // Its worker would kill its agent if it waited. A renewal that waits fails, since nothing is released before.
    const renewed = yield* leases.renew([lease])
    yield* Deferred.succeed(release, undefined)
    assert.deepStrictEqual(renewed, [])
  }).pipe(Effect.provide(layer), Effect.scoped))
