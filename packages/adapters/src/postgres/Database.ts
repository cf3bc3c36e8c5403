/** Connections to Postgres, with the session settings our statements count on. */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"

/** A `DATABASE_URL`, or the socket of the embedded server. */
export type DatabaseLocation = Pick<PgClient.PgPoolConfig, "url" | "path" | "username" | "database">

/**
 * For statements that are short and wait for nobody: what came in the same moment goes out in one write on a shared
 * connection, which saves a third of a GET's time (bench api, 2026-11-21). A statement that waits for a lock or a disk
 * would hold up those behind it, so whatever writes sandboxes uses the ordinary client. `null`: that is used for all.
 */
export const Reads = Context.Reference<SqlClient | null>("@slipway/adapters/postgres/Reads", { defaultValue: () => null })

/** Statements that share a connection before another one is opened. */
const SHARING = 8

/**
 * Pools for writing and for reading. `lock_timeout`: how long a request waits for another one's lock before it is told
 * to come again (decisions, section 4). `statement_timeout` bounds what a slow database can hold up.
 */
export const layer = (location: DatabaseLocation, { reading = 4, writing = 10 } = {}) => {
  const settings = {
    ...location,
    applicationName: "slipway",
    connectTimeout: "5 seconds",
    startupParameters: { TimeZone: "UTC", lock_timeout: "5s", statement_timeout: "30s" }
  } as const
  return Layer.merge(
    PgClient.layer({ ...settings, maxConnections: writing }),
    Layer.effect(Reads, SqlClient).pipe(
      Layer.provide(PgClient.layer({ ...settings, maxConnections: reading, multiplex: true, multiplexConcurrency: SHARING }))
    )
  )
}
