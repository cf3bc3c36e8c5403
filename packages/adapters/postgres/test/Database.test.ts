import { assert, describe, it } from "@effect/vitest"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as SilentNetwork from "@slipway/machine/testing/SilentNetwork"
import { Effect, Exit, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "../src/Database.ts"
import { guard } from "../src/sql/SqlFailure.ts"

const on = (url: string) => <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.provide(self, Database.layer({ url: Redacted.make(url) }))

/** "unavailable", what else failed, or what was answered. */
const told = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.exit(self), (exit) => {
    if (Exit.isSuccess(exit)) return "answered"
    const [reason] = exit.cause.reasons
    return reason?._tag === "Fail" && reason.error instanceof StoreUnavailable ? "unavailable" : String(exit.cause)
  })

const all = (outcome: string, { length }: ReadonlyArray<unknown>) => Array.from({ length }, () => outcome)

describe("a database that is silent", () => {
  it.live("answers within ten seconds while it is down, and serves all callers again once it is back", () =>
    Effect.gen(function*() {
      const network = yield* SilentNetwork.make(yield* TestPostgres.database(Layer.empty))
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const reads = (yield* Database.Reads) ?? sql
        const statement = guard(sql`SELECT 1`)
        const requests = Array.from({ length: 100 }, (_, i) =>
          i % 3 === 0 ? guard(reads`SELECT 1`) : i % 3 === 1 ? statement : guard(sql.withTransaction(sql`SELECT 1`)))
        const ask = Effect.forEach(requests, told, { concurrency: "unbounded" })
        assert.deepStrictEqual(yield* ask, all("answered", requests))

        yield* network.silence
        const before = network.open()
        // More than anything may take, and far less than the quarter of an hour that the kernel would try.
        const patient = Effect.timeoutOption(ask, "20 seconds")
        assert.deepStrictEqual(Option.getOrUndefined(yield* patient), all("unavailable", requests))
        // Once more, with no connection that was good before.
        assert.deepStrictEqual(Option.getOrUndefined(yield* patient), all("unavailable", requests))

        yield* network.restore
        const back = Effect.repeat(ask, {
          until: (outcomes) =>
            outcomes.every((outcome) => outcome === "answered")
        })
        assert.isTrue(Option.isSome(yield* Effect.timeoutOption(back, "15 seconds")))
        for (const socket of before) assert.isFalse(network.open().includes(socket))
      }).pipe(on(network.url))
    }))
})

describe("a connection that is lost inside a transaction", () => {
  it.live("is the store's loss, not a defect, whatever the transaction was about to say", () =>
    Effect.gen(function*() {
      const url = yield* TestPostgres.database(Layer.empty)
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const end = sql`SELECT pg_terminate_backend(pg_backend_pid())`
        const ways: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
          sql`SELECT 1`,
          Effect.fail("refused by a rule"),
          Effect.void,
          Effect.interrupt,
          Effect.die("noticed")
        ]
        for (const after of ways) {
          const transaction = guard(sql.withTransaction(Effect.andThen(Effect.ignore(end), after)))
          assert.strictEqual(yield* told(transaction), "unavailable")
        }
        assert.strictEqual(yield* told(guard(sql`SELECT 1`)), "answered")
      }).pipe(on(url))
    }))
})
