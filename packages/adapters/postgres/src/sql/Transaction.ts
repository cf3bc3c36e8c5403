/** Transactions of functions that take their store as first argument. */
import type { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { guard } from "./SqlFailure.ts"

/** The last step of such an `Effect.fn`: runs it as one transaction, and fails as `guard` says. */
export const inTransaction = <A, E, R>(self: Effect.Effect<A, E, R>, { sql }: { readonly sql: SqlClient.SqlClient }) =>
  guard(sql.withTransaction(self))
