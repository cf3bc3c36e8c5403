/** Feeds of partners: `partner_events`, by grant and sequence. */
import { DateTime, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { FeedRow, TOUCH, TouchRow } from "../rows/PartnerRows.ts"

export const feedRows = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Struct({ grantId: Schema.String, after: Schema.Int, limit: Schema.Int }),
    Result: FeedRow,
    execute: ({ after, grantId, limit }) =>
      sql`
        SELECT id, sequence, type, data, created_at AS "createdAt" FROM partner_events
        WHERE grant_id = ${grantId} AND sequence > ${after}::bigint ORDER BY sequence LIMIT ${limit}`
  })

/** Adds to feeds, by a function that numbers what it adds under the lock of each feed, in one order of the feeds. */
export const tellPartners = (sql: SqlClient.SqlClient, tellings: ReadonlyArray<unknown>, at: DateTime.Utc) =>
  sql`SELECT tell_partners(${JSON.stringify(tellings)}::jsonb, ${DateTime.formatIso(at)}::timestamptz)`

/** Under which touches a task started. */
export const tasksOf = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.String,
    Result: Schema.Struct({ ...TouchRow.fields, projectId: Schema.NullOr(Schema.String) }),
    execute: (sandboxId) =>
      sql`
      SELECT ${sql.literal(TOUCH)}, t.project_id AS "projectId" FROM partner_tasks t JOIN credit_claims c ON c.id = t.claim_id
      WHERE t.sandbox_id = ${sandboxId}`
  })
