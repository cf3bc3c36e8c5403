import { assert, layer } from "@effect/vitest"
import { DeviceLoginStore } from "@slipway/domain/access/ports/DeviceLoginStore"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Ids } from "@slipway/domain/ids/Ids"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { suite } from "@slipway/testing/contracts/access/DeviceLoginStoreContract"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as DeviceLoginStorePostgres from "../src/device-login-store/DeviceLoginStorePostgres.ts"
import { database } from "./Stores.ts"

const stores = DeviceLoginStorePostgres.layer.pipe(
  Layer.provideMerge(IdsNode.layer),
  Layer.provideMerge(database())
)

register(suite("postgres", stores))

layer(stores, { excludeTestServices: true })("a login that begins", (it) => {
  it.effect("does not delay decisions about other logins, nor commands that poll", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const store = yield* DeviceLoginStore
      const ids = yield* Ids
      const digest = Effect.map(ids.uuid7, ids.digest)
      const { userId } = yield* (yield* MemberStore).owner
      const createdAt = yield* DateTime.now
      const begin = Effect.gen(function*() {
        const digests = { device: yield* digest, user: yield* digest }
        yield* store.begin({ machine: "laptop", address: "192.0.2.7", createdAt }, digests, { ofNetwork: 20, ofAll: 20 })
        return digests
      })
      const { device, user } = yield* begin
      const begun = yield* Deferred.make<void>()
      const done = yield* Deferred.make<void>()
      const beginning = yield* Effect.forkChild(
        sql.withTransaction(begin.pipe(Effect.andThen(Deferred.succeed(begun, undefined)), Effect.andThen(Deferred.await(done))))
      )
      yield* Deferred.await(begun)
      const refused = yield* Effect.flip(store.ask(device, createdAt))
      assert.deepInclude(refused, { because: "authorization_pending" })
      assert.isNotNull(yield* store.decide(user, { _tag: "Denied", userId }, createdAt))
      yield* Deferred.succeed(done, undefined)
      yield* Fiber.join(beginning)
    }))
})
