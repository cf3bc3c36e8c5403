/** The stores in the simulation of a whole service: real workers under faults that a seed chooses. */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import * as StoreClock from "@slipway/domain/sandbox/usecases/StoreClock"
import { failureOf, type Options, simulate } from "@slipway/testing/simulation/Simulation"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import { Effect, Layer, Result } from "effect"
import { DatabaseSync } from "node:sqlite"
import { test } from "node:test"
import { Database } from "../src/Database.ts"
import * as Stores from "../src/Stores.ts"

const worker: Options["worker"] = (options) =>
  Effect.flatMap(Layer.build(StoreClock.layer), (clock) => Effect.provide(WorkerNode.start(options), clock))

/** These stores have no accounts: which grants are revoked is known by those of the simulation. */
const stores = Layer.effect(
  Maintenance,
  Effect.gen(function*() {
    const [access, database, maintenance] = [yield* AccessStore, yield* Database, yield* Maintenance]
    return Maintenance.of({
      ...maintenance,
      ofRevokedGrants: (limit) =>
        Effect.gen(function*() {
          const revoked = (yield* access.listGrants).filter(({ revokedAt }) => revokedAt !== null).map(({ id }) => id)
          yield* database.write((sql) =>
            Result.succeed(sql.run(
              "INSERT OR IGNORE INTO revoked_grants (grant_id) SELECT value FROM json_each(:revoked)",
              { revoked: JSON.stringify(revoked) }
            ))
          )
          return yield* maintenance.ofRevokedGrants(limit)
        })
    })
  })
).pipe(Layer.provideMerge(Stores.layer(":memory:", (file) => new DatabaseSync(file))))

test("every rule of a whole service holds on these stores, in 10 seeds", () => {
  for (let seed = 1; seed <= 10; seed++) {
    const result = simulate({ seed, worker, stores })
    if (result.broken !== null) throw new Error(failureOf(result))
  }
})
