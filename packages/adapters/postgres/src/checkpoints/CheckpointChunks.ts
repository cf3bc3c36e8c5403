/** The bytes of checkpoints in the database: a row for each MiB, so that no statement is long and no row is large. */
import { StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import { Effect, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { guard } from "../sql/SqlFailure.ts"
import type { CheckpointContents } from "./CheckpointContents.ts"

/** Rows that one statement deletes, of 1 MiB each. */
const DELETED = 16

export const make: Effect.Effect<CheckpointContents, never, SqlClient.SqlClient> = Effect.map(SqlClient.SqlClient, (sql) => ({
  place: "database",

  write: ({ id }, pieces) =>
    Stream.runForEach(Stream.zipWithIndex(pieces), ([data, n]) =>
      guard(sql`
        INSERT INTO checkpoint_chunks (content, n, data)
        SELECT c.id, ${n}, ${data} FROM checkpoint_contents c JOIN sandboxes s ON s.id = c.sandbox_id AND s.fence = c.fence
        WHERE c.id = ${id} RETURNING 1`.pipe(
        // Its row was forgotten between being looked at and being referred to.
        Effect.catchReason("SqlError", "ConstraintError", () => Effect.fail(new StaleLease())),
        Effect.flatMap((rows) => rows.length === 0 ? Effect.fail(new StaleLease()) : Effect.void)
      ))),

  read: ({ id }) =>
    Stream.unfold(0, (n) =>
      Effect.map(
        guard(sql<{ readonly data: Uint8Array }>`SELECT data FROM checkpoint_chunks WHERE content = ${id} AND n = ${n}`),
        ([row]) => row === undefined ? undefined : [row.data, n + 1] as const
      )),

  remove: Effect.fnUntraced(function*({ id }) {
    for (let deleted = DELETED; deleted === DELETED;) {
      const rows = yield* guard(sql`
        DELETE FROM checkpoint_chunks WHERE content = ${id} AND n IN (
          SELECT n FROM checkpoint_chunks WHERE content = ${id} ORDER BY n LIMIT ${DELETED}
        ) RETURNING 1`)
      deleted = rows.length
    }
  })
}))
