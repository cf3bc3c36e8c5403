/** The statements on `mcp_servers`, by the unique index over grant, lower-case repository and name. */
import type { McpServerKey } from "@slipway/domain/mcp/ports/McpServerStore"
import { McpServerName, McpServerSettings } from "@slipway/domain/mcp/schema/McpServer"
import { DateTime, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Sealed } from "../secret-store/rows/SecretRows.ts"
import { Instant } from "../sql/Instant.ts"
import { Int8 } from "../sql/Int8.ts"
import { textArray } from "../sql/TextArray.ts"

const Row = Schema.Struct({
  repo: Schema.String,
  name: McpServerName,
  settings: McpServerSettings,
  hasCredential: Schema.Boolean,
  createdAt: Instant,
  setAt: Instant
})

const COLUMNS = `repo, name, settings, sealed IS NOT NULL AS "hasCredential", created_at AS "createdAt", set_at AS "setAt"`

const encode = Schema.encodeSync(Schema.fromJsonString(McpServerSettings))

/** A row if the grant is in use. The lock makes a revocation of the grant wait for this transaction, and delete what it stores. */
export const lockGrant = (sql: SqlClient.SqlClient, grantId: string) =>
  sql`SELECT FROM grants WHERE id = ${grantId} AND revoked_at IS NULL FOR KEY SHARE`

/** Changes of one grant's servers wait for each other, so each counts those before it. */
export const lockServers = (sql: SqlClient.SqlClient, grantId: string) =>
  sql`SELECT pg_advisory_xact_lock(hashtextextended(${`mcp_servers/${grantId}`}, 0))`

/** In order of repository and name; `repo`: `null` for all. */
export const selectServers = (sql: SqlClient.SqlClient, grantId: string, repo: string | null) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: Row,
    execute: () =>
      sql`
        SELECT ${sql.literal(COLUMNS)} FROM mcp_servers
        WHERE grant_id = ${grantId} ${repo === null ? sql`` : sql`AND lower(repo) = lower(${repo})`}
        ORDER BY lower(repo) COLLATE "C", name COLLATE "C"`
  })(undefined)

/** Numbers of the grant's other servers. */
export const countOthers = (sql: SqlClient.SqlClient, { grantId, name, repo }: McpServerKey) =>
  SqlSchema.findOne({
    Request: Schema.Void,
    Result: Schema.Struct({ ofGrant: Int8, ofRepo: Int8 }),
    execute: () =>
      sql`
        SELECT count(*) AS "ofGrant", count(*) FILTER (WHERE lower(repo) = lower(${repo})) AS "ofRepo"
        FROM mcp_servers WHERE grant_id = ${grantId} AND NOT (lower(repo) = lower(${repo}) AND name = ${name})`
  })(undefined)

/** `sealed`: `undefined` keeps the stored credential. */
export const saveServer = (
  sql: SqlClient.SqlClient,
  { grantId, name, repo }: McpServerKey,
  settings: McpServerSettings,
  sealed: string | null | undefined,
  at: DateTime.Utc
) =>
  SqlSchema.findOne({
    Request: Schema.Void,
    Result: Row,
    execute: () =>
      sql`
        INSERT INTO mcp_servers (grant_id, repo, name, settings, sealed, created_at, set_at)
        VALUES (${grantId}, ${repo}, ${name}, ${encode(settings)}::jsonb, ${sealed ?? null}, ${DateTime.formatIso(at)},
          ${DateTime.formatIso(at)})
        ON CONFLICT (grant_id, lower(repo), name) DO UPDATE
          SET repo = excluded.repo, settings = excluded.settings, set_at = excluded.set_at
            ${sealed === undefined ? sql`` : sql`, sealed = excluded.sealed`}
        RETURNING ${sql.literal(COLUMNS)}`
  })(undefined)

/** A row if it was there. */
export const deleteServer = (sql: SqlClient.SqlClient, { grantId, name, repo }: McpServerKey) =>
  sql`DELETE FROM mcp_servers WHERE grant_id = ${grantId} AND lower(repo) = lower(${repo}) AND name = ${name} RETURNING 1`

/** Those of these repositories with their encrypted credentials, in order of repository and name. */
export const selectSealed = (sql: SqlClient.SqlClient, grantId: string, repos: ReadonlyArray<string>) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: Schema.Struct({ ...Row.fields, sealed: Schema.NullOr(Sealed) }),
    execute: () =>
      sql`
        SELECT ${sql.literal(COLUMNS)}, sealed FROM mcp_servers
        WHERE grant_id = ${grantId} AND lower(repo) = ANY(${textArray(repos.map((repo) => repo.toLowerCase()))}::text[])
        ORDER BY lower(repo) COLLATE "C", name COLLATE "C"`
  })(undefined)

/** All encrypted credentials, locked in one order. */
export const selectAllSealed = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: Schema.Struct({ grantId: Schema.String, repo: Schema.String, name: McpServerName, sealed: Sealed }),
    execute: () =>
      sql`
        SELECT grant_id AS "grantId", repo, name, sealed FROM mcp_servers WHERE sealed IS NOT NULL
        ORDER BY grant_id, lower(repo), name FOR NO KEY UPDATE`
  })(undefined)

export const updateSealed = (sql: SqlClient.SqlClient, { grantId, name, repo }: McpServerKey, sealed: string) =>
  sql`UPDATE mcp_servers SET sealed = ${sealed} WHERE grant_id = ${grantId} AND lower(repo) = lower(${repo}) AND name = ${name}`
