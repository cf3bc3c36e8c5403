import type { SqlClient } from "effect/sql"

/** The connections of a store. */
export interface Clients {
  /** For writes, and for reads inside a transaction. */
  readonly sql: SqlClient.SqlClient
  /** For short reads that wait for no lock (`Database.Reads`). Never inside a transaction. */
  readonly reads: SqlClient.SqlClient
}
