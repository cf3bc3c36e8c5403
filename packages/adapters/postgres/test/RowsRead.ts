import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** The result of `use`, and how many rows of the tables of these names the database looks at for it. */
export const rowsRead = Effect.fnUntraced(function*<A, E, R>(use: Effect.Effect<A, E, R>, tables = "%") {
  const sql = yield* SqlClient.SqlClient
  const read = Effect.map(
    sql<{ readonly rows: bigint }>`
      SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint AS rows FROM pg_stat_xact_user_tables WHERE relname LIKE ${tables}`,
    ([row]) => Number(row?.rows ?? 0)
  )
  return yield* sql.withTransaction(Effect.gen(function*() {
    const before = yield* read
    const result = yield* use
    return { result, rows: (yield* read) - before }
  }))
})
