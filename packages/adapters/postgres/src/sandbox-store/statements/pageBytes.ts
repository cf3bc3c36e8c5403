import type { SqlClient, Statement } from "effect/sql"

/**
 * A column `bytes_before`: the bytes of the rows before this one in `order`. A page ends where it passes `PAGE_BYTES`. Postgres knows the
 * length of a text without reading it, so the texts beyond the page stay on the disk.
 */
export const bytesBefore = (sql: SqlClient.SqlClient, bytes: Statement.Fragment, order: Statement.Fragment) =>
  sql`coalesce(sum(${bytes}) OVER (ORDER BY ${order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before`
