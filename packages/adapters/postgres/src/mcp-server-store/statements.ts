/** The statements on `mcp_servers`, by the unique index over grant, lower-case repository and name. */
import type { McpServerKey } from "@slipway/domain/mcp/ports/McpServerStore"
import { McpCommandSettings, McpRemoteSettings, McpServerName, type McpServerSettings } from "@slipway/domain/mcp/schema/McpServer"
import { DateTime, Schema, SchemaTransformation, Struct } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Sealed } from "../secret-store/rows/SecretRows.ts"
import { Instant } from "../sql/Instant.ts"
import { Int8 } from "../sql/Int8.ts"
import { textArray } from "../sql/TextArray.ts"

/**
 * The address that a process of an earlier version reads for a command, which it does not know: it finds no server there (RFC 6761). Then
 * it names the server as missing, instead of failing on the row.
 */
const NO_ADDRESS = "https://command.invalid/"

const StoredCommand = Schema.Struct({
  url: Schema.Literal(NO_ADDRESS),
  authentication: Schema.Struct({ type: Schema.Literal("none") }),
  ...McpCommandSettings.fields
})

/** The settings as they are stored, which an earlier version can read too. */
const Settings = Schema.Union([
  StoredCommand.pipe(Schema.decodeTo(
    Schema.toType(McpCommandSettings),
    SchemaTransformation.transform({
      decode: Struct.omit(["authentication", "url"]),
      encode: (settings) => ({ url: NO_ADDRESS, authentication: { type: "none" }, ...settings } as const)
    })
  )),
  McpRemoteSettings
])

const Row = Schema.Struct({
  repo: Schema.String,
  name: McpServerName,
  settings: Settings,
  hasCredential: Schema.Boolean,
  connection: Schema.NullOr(Schema.Struct({ connectedAt: Schema.DateTimeUtcFromString, problem: Schema.NullOr(Schema.String) })),
  createdAt: Instant,
  setAt: Instant
})

const COLUMNS = `repo, name, settings, sealed IS NOT NULL AS "hasCredential", created_at AS "createdAt", set_at AS "setAt",
  CASE WHEN connection IS NOT NULL THEN jsonb_build_object('problem', connection_problem, 'connectedAt',
    to_char(connected_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) END AS connection`

const encode = Schema.encodeSync(Schema.fromJsonString(Settings))

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

const NO_CONNECTION = "connection = NULL, connected_at = NULL, connection_problem = NULL, renewing_until = NULL"

/** `sealed`: `undefined` keeps the stored credential. */
export const saveServer = (
  sql: SqlClient.SqlClient,
  { grantId, name, repo }: McpServerKey,
  settings: McpServerSettings,
  sealed: string | null | undefined,
  isConnectionKept: boolean,
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
            ${isConnectionKept ? sql`` : sql`, ${sql.literal(NO_CONNECTION)}`}
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

const where = (sql: SqlClient.SqlClient, { grantId, name, repo }: McpServerKey) =>
  sql`grant_id = ${grantId} AND lower(repo) = lower(${repo}) AND name = ${name}`

/** A row if the server is there. */
export const saveBegun = (
  sql: SqlClient.SqlClient,
  server: McpServerKey,
  begun: { readonly sealed: string; readonly state: string; readonly until: DateTime.Utc }
) =>
  sql`
    UPDATE mcp_servers SET begun = ${begun.sealed}, begun_state = ${begun.state}, begun_until = ${DateTime.formatIso(begun.until)}
    WHERE ${where(sql, server)} RETURNING 1`

/** Deletes what was begun with this state, and returns it. */
export const takeBegun = (sql: SqlClient.SqlClient, grantId: string, state: string) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: Schema.Struct({ repo: Schema.String, name: McpServerName, settings: Settings, begun: Sealed, until: Instant }),
    execute: () =>
      sql`
        WITH taken AS (
          SELECT ctid, repo, name, settings, begun, begun_until FROM mcp_servers
          WHERE grant_id = ${grantId} AND begun_state = ${state} LIMIT 1 FOR NO KEY UPDATE
        ), deleted AS (
          UPDATE mcp_servers SET begun = NULL, begun_state = NULL, begun_until = NULL FROM taken WHERE mcp_servers.ctid = taken.ctid
        )
        SELECT repo, name, settings, begun, begun_until AS until FROM taken`
  })(undefined)

export const saveConnection = (sql: SqlClient.SqlClient, server: McpServerKey, sealed: string, at: DateTime.Utc) =>
  SqlSchema.findOne({
    Request: Schema.Void,
    Result: Row,
    execute: () =>
      sql`
        UPDATE mcp_servers SET connection = ${sealed}, connection_problem = NULL,
          connection_version = greatest(connection_version + 1, ${DateTime.toEpochMillis(at)}),
          connected_at = ${DateTime.formatIso(at)}, renewing_until = NULL
        WHERE ${where(sql, server)} RETURNING ${sql.literal(COLUMNS)}`
  })(undefined)

export const selectConnection = (sql: SqlClient.SqlClient, server: McpServerKey) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: Schema.Struct({ tokens: Sealed, version: Int8, connectedAt: Instant, problem: Schema.NullOr(Schema.String) }),
    execute: () =>
      sql`
        SELECT connection AS tokens, connection_version AS version, connected_at AS "connectedAt", connection_problem AS problem
        FROM mcp_servers WHERE ${where(sql, server)} AND connection IS NOT NULL`
  })(undefined)

/** A row if the renewal was free. */
export const claimRenewal = (
  sql: SqlClient.SqlClient,
  server: McpServerKey,
  version: number,
  at: DateTime.Utc,
  until: DateTime.Utc
) =>
  sql`
    UPDATE mcp_servers SET renewing_until = ${DateTime.formatIso(until)}
    WHERE ${where(sql, server)} AND connection IS NOT NULL AND connection_version = ${version}
      AND (renewing_until IS NULL OR renewing_until <= ${DateTime.formatIso(at)})
    RETURNING 1`

/** `sealed`: new tokens; `problem`: why the connection has ended; neither: another process may try. */
export const endRenewal = (
  sql: SqlClient.SqlClient,
  server: McpServerKey,
  version: number,
  { problem, sealed }: { readonly sealed?: string; readonly problem?: string }
) =>
  sql`
    UPDATE mcp_servers SET renewing_until = NULL
      ${sealed === undefined ? sql`` : sql`, connection = ${sealed}, connection_version = connection_version + 1`}
      ${problem === undefined ? sql`` : sql`, connection_problem = ${problem}, connection_version = connection_version + 1`}
    WHERE ${where(sql, server)} AND connection IS NOT NULL AND connection_version = ${version}`
