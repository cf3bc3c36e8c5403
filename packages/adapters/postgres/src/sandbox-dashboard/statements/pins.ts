import { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Pinning } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"

/** The sandboxes that a person pinned in a grant, by primary key. */
export const pinRows = (reads: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Struct({ grantId: Schema.String, userId: Schema.String }),
    Result: Schema.Struct({ id: SandboxId }),
    execute: ({ grantId, userId }) => reads`SELECT sandbox_id AS id FROM sandbox_pins WHERE grant_id = ${grantId} AND user_id = ${userId}`
  })

/** Orders the pins of a person in a grant until the transaction ends, so that their number stays bounded. */
export const lockPins = (sql: SqlClient.SqlClient, { grantId, userId }: Pinning) =>
  sql`SELECT pg_advisory_xact_lock(hashtextextended(${`pins/${grantId}/${userId}`}, 0))`

/** How many other sandboxes the person pinned: one row, or none if the grant has no such sandbox. */
export const countOtherPins = (sql: SqlClient.SqlClient, { grantId, userId }: Pinning, id: SandboxId) =>
  sql<{ readonly count: number }>`
        SELECT (
          SELECT count(*) FROM sandbox_pins p WHERE p.grant_id = s.grant_id AND p.user_id = ${userId} AND p.sandbox_id <> s.id
        )::integer AS count
        FROM sandboxes s WHERE s.id = ${id} AND s.grant_id = ${grantId} AND s.deleted_at IS NULL FOR SHARE`

export const insertPin = (sql: SqlClient.SqlClient, { grantId, userId }: Pinning, id: SandboxId) =>
  sql`INSERT INTO sandbox_pins (grant_id, user_id, sandbox_id) VALUES (${grantId}, ${userId}, ${id}) ON CONFLICT DO NOTHING`

export const deletePin = (sql: SqlClient.SqlClient, { grantId, userId }: Pinning, id: SandboxId) =>
  sql`DELETE FROM sandbox_pins WHERE grant_id = ${grantId} AND user_id = ${userId} AND sandbox_id = ${id}`
