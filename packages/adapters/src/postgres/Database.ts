/** Connections to Postgres, with the session settings our statements count on. */
import { PgClient } from "@effect/sql-pg"

/** A `DATABASE_URL`, or the socket of the embedded server. */
export type DatabaseLocation = Pick<PgClient.PgPoolConfig, "url" | "path" | "username" | "database">

/**
 * A pool. `lock_timeout`: how long a request waits for another one's lock before it is told to come again (decisions,
 * section 4). `statement_timeout` bounds what a slow database can hold up.
 */
export const layer = (location: DatabaseLocation, maxConnections = 10) =>
  PgClient.layer({
    ...location,
    maxConnections,
    applicationName: "slipway",
    connectTimeout: "5 seconds",
    startupParameters: { TimeZone: "UTC", lock_timeout: "5s", statement_timeout: "30s" }
  })
