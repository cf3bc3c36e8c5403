import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Calls of models that are forgotten by their age: those that nothing is reserved for. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE INDEX model_calls_over ON model_calls (at) WHERE state <> 'open' AND micros = 0`
})
