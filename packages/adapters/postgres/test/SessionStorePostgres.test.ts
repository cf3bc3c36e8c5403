import { assert, it } from "@effect/vitest"
import { SessionStore } from "@slipway/domain/access/ports/SessionStore"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { suite } from "@slipway/testing/contracts/access/SessionStoreContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import * as SessionStorePostgres from "../src/session-store/SessionStorePostgres.ts"
import { database } from "./Stores.ts"

const layer = Layer.merge(SessionStorePostgres.layer, AccessStorePostgres.layer).pipe(
  Layer.provideMerge(IdsNode.layer),
  Layer.provideMerge(database())
)

register(suite("postgres", layer))

it.live("keeps no ticket that was used or has expired", () =>
  Effect.gen(function*() {
    const [sql, store] = [yield* SqlClient.SqlClient, yield* SessionStore]
    const kept = Effect.map(sql<{ readonly digest: string }>`SELECT digest FROM preview_tickets ORDER BY 1`, (rows) =>
      rows.map(({ digest }) => digest[0]))
    const digestOf = (letter: string) =>
      letter.repeat(64)
    yield* store.makeTicket(digestOf("a"), Duration.zero)
    yield* store.makeTicket(digestOf("b"), Duration.minutes(1))
    assert.deepStrictEqual(yield* kept, ["b"])
    yield* store.makeTicket(digestOf("c"), Duration.minutes(1))
    yield* store.useTicket(digestOf("b"))
    assert.deepStrictEqual(yield* kept, ["c"])
  }).pipe(Effect.provide(layer)))
