/** Pages of a sandbox's log and of its messages, each up to `PAGE_BYTES`. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { CHECKPOINT_TYPES } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { AttachedFile } from "@slipway/domain/sandbox/schema/PromptFile"
import { PAGE_BYTES } from "@slipway/domain/store/Page"
import { Effect, Schema } from "effect"
import { type SqlClient, SqlSchema, type Statement } from "effect/sql"
import { Instant } from "../../sql/Instant.ts"
import { Int8 } from "../../sql/Int8.ts"
import { bytesBefore } from "./pageBytes.ts"

/** A long log and its messages go in parts: no reader sees one of them. */
const ofDeleted = (reads: SqlClient.SqlClient, id: string) =>
  reads`EXISTS (SELECT FROM sandboxes d WHERE d.id = ${id} AND d.deleted_at IS NOT NULL)`

/** Only checkpoints and restores. Literals, because the planner takes the partial index (0059) only for types that it knows. */
export const ofCheckpoints = (reads: SqlClient.SqlClient) =>
  reads.literal(`AND type IN (${CHECKPOINT_TYPES.map((type) => `'${type}'`).join(", ")})`)

/** Entries after a `seq`, ascending, by the primary key. `only`: a further condition. */
export const selectEntries = (
  reads: SqlClient.SqlClient,
  id: SandboxId,
  after: number,
  limit: number,
  only: Statement.Fragment = reads``
) =>
  Effect.map(
    reads<{ readonly seq: bigint; readonly type: SandboxEvent["type"]; readonly wire: string }>`
          SELECT seq, type, wire FROM (
            SELECT seq, type, wire, ${bytesBefore(reads, reads`octet_length(wire)`, reads`seq`)} FROM sandbox_events
            WHERE sandbox_id = ${id} AND seq > ${after} ${only} AND NOT ${ofDeleted(reads, id)} ORDER BY seq LIMIT ${limit}
          ) page WHERE bytes_before < ${PAGE_BYTES} ORDER BY seq`,
    (rows) => rows.map(({ seq, type, wire }) => ({ seq: Number(seq), type, wire }))
  )

/** Messages after a `seq`, ascending, by the primary key. */
export const messageRows = (reads: SqlClient.SqlClient) => {
  const rows = SqlSchema.findAll({
    Request: Schema.Tuple([SandboxId, Schema.Int, Schema.Int]),
    Result: Schema.Struct({
      seq: Int8,
      id: Schema.String,
      turnId: Schema.String,
      role: Schema.Literals(["user", "assistant"]),
      text: Schema.String,
      createdAt: Instant,
      files: Schema.NullOr(Schema.Array(AttachedFile))
    }),
    execute: ([id, after, limit]) =>
      reads`
        SELECT seq, id, turn_id AS "turnId", role, text, created_at AS "createdAt", files FROM (
          SELECT *, ${bytesBefore(reads, reads`octet_length(text)`, reads`seq`)} FROM messages
          WHERE sandbox_id = ${id} AND seq > ${after} AND NOT ${ofDeleted(reads, id)} ORDER BY seq LIMIT ${limit}
        ) page WHERE bytes_before < ${PAGE_BYTES} ORDER BY seq`
  })
  return (request: Parameters<typeof rows>[0]) =>
    Effect.map(rows(request), (found) => found.map(({ files, ...message }) => files === null ? message : { ...message, files }))
}

/** `seq` of the newest event that was purged. */
export const selectPurged = (sql: SqlClient.SqlClient, id: SandboxId) =>
  sql<{ readonly purged: bigint }>`SELECT purged_seq AS purged FROM sandboxes WHERE id = ${id} AND deleted_at IS NULL`
