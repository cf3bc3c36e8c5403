/** `StoreHealth` on Postgres. */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { StoreHealth } from "@slipway/domain/store/StoreHealth"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"

/** The database is asked no more often, however many callers ask. A repaired disk is noticed within five seconds, the probe included. */
const KEPT = "3 seconds"

/** A connection that cannot be had, or a server that is silent, is not for us to tell: requests meet both. */
const PATIENCE = "2 seconds"

const UNWRITABLE = "The database cannot write to its disk: it is read-only, out of inodes, or fails."

/**
 * By SQLSTATE, of a statement that writes a temporary file (PostgreSQL 18, appendix A). XX000 is all that Postgres says when it
 * cannot make one. Others, such as 53400 above the operator's own `temp_file_limit`, say nothing of the disk.
 */
const sentences: Readonly<Record<string, string>> = {
  "53100": "The disk of the database is full.",
  "58030": UNWRITABLE,
  XX000: UNWRITABLE
}

/**
 * A row that is updated finds room on a full disk, in pages that are there already; a table that grows does not. So the probe
 * has Postgres spill a mebibyte into a temporary file beside its tables: that takes blocks and an inode as a new page does, and
 * leaves nothing behind, neither rows nor write-ahead log (1.4 ms, measured 2026-11-22).
 */
export const layer = Layer.effect(
  StoreHealth,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const probe = sql.withTransaction(Effect.gen(function*() {
      const [settings] = yield* sql<{ readonly readOnly: string }>`
        SELECT current_setting('transaction_read_only') AS "readOnly",
          set_config('work_mem', '64kB', true), set_config('temp_tablespaces', '', true)`
      yield* sql`SELECT count(*) FROM unnest(array_fill(repeat('x', 8192), ARRAY[128]))`
      return settings?.readOnly === "on" ? "The database takes no writes: it is a standby, or read-only." : null
    }))
    return yield* probe.pipe(
      Effect.catch((error) => Effect.succeed(sentences[String(codeOf(error.reason.cause))] ?? null)),
      Effect.timeoutOrElse({ duration: PATIENCE, orElse: () => Effect.succeed(null) }),
      // A transaction that lost its connection dies.
      Effect.catchCause(() => Effect.succeed(null)),
      Effect.cachedWithTTL(KEPT)
    )
  })
)
