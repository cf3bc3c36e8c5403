import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as WorkerOffers from "../src/workers/WorkerOffers.ts"
import { database } from "./Stores.ts"

it.layer(database())("what workers offer", (it) => {
  it.effect("is what those say that are there: not the ones that ended, nor the ones not heard of", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const offers = yield* WorkerOffers.make
      const one = {
        usable: ["a"],
        unusable: [{ id: "b", reason: "No 'account'." }],
        isolation: { kind: "none", problem: "No bubblewrap." }
      }
      const two = { usable: ["a", "b"], unusable: [], isolation: { kind: "bubblewrap", problem: null } }
      yield* offers.publish("one", two)
      yield* offers.publish("one", one)
      yield* offers.publish("two", two)
      assert.deepStrictEqual(yield* offers.current, [one, two])
      yield* offers.withdraw("two")
      assert.deepStrictEqual(yield* offers.current, [one])
      yield* sql`UPDATE worker_offers SET seen_at = seen_at - interval '2 minutes'`
      assert.deepStrictEqual(yield* offers.current, [])
      yield* offers.publish("one", one)
      assert.deepStrictEqual(yield* offers.current, [one])
    }))
})
