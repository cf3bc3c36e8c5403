import * as Context from "effect/Context"
import type { SqlClient } from "effect/sql"

/**
 * For short statements that wait for no lock: statements of the same moment go out in one write on a shared connection, which saves a
 * third of a GET's time (bench api, 2026-11-21). A statement that waits for a lock or a disk would delay those behind it, so writes of
 * sandboxes use the ordinary client. `null`: the ordinary client is used for all.
 */
export const Reads = Context.Reference<SqlClient.SqlClient | null>("@slipway/postgres/Reads", { defaultValue: () => null })

/**
 * For the renewal of leases alone: whatever else a worker does, and however much of it, a renewal waits for no connection. A
 * lease that is not renewed in time costs a running agent. `null`: the ordinary client is used.
 */
export const Renewals = Context.Reference<SqlClient.SqlClient | null>("@slipway/postgres/Renewals", { defaultValue: () => null })

/** The connections of a store. */
export interface Clients {
  /** For writes, and for reads inside a transaction. */
  readonly sql: SqlClient.SqlClient
  /** For short reads that wait for no lock (`Reads`). Never inside a transaction. */
  readonly reads: SqlClient.SqlClient
}
