import type * as PgClient from "@effect/sql-pg/PgClient"

/** An address, or the socket of the embedded server. */
export type DatabaseLocation = Pick<PgClient.PgPoolConfig, "url" | "path" | "username" | "database">
