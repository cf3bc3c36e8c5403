/** The statements on `repository_settings`. */
import type { SettingsOf } from "@slipway/domain/source/ports/RepositorySettings"
import { RepoSettings } from "@slipway/domain/source/schema/RepoSettings"
import { DateTime, Effect, Exit, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import * as Batches from "../sql/Batches.ts"
import { Instant } from "../sql/Instant.ts"
import { textArray } from "../sql/TextArray.ts"

const Row = Schema.Struct({ repo: Schema.String, settings: RepoSettings, setAt: Instant })
const encode = Schema.encodeSync(Schema.fromJsonString(RepoSettings))

/** In order of repository. */
export const selectSettings = (sql: SqlClient.SqlClient, grantId: string) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: Row,
    execute: () =>
      sql`
        SELECT repo, settings, set_at AS "setAt" FROM repository_settings WHERE grant_id = ${grantId}
        ORDER BY lower(repo) COLLATE "C"`
  })(undefined)

const decode = Schema.decodeUnknownSync(RepoSettings)

/** In the order of the question; `null`: none are stored. */
export const selectAsked = (reads: SqlClient.SqlClient, asked: ReadonlyArray<SettingsOf>) =>
  Effect.map(
    reads<{ readonly n: bigint; readonly settings: unknown }>`
      SELECT k.n, s.settings
      FROM unnest(${textArray(asked.map(({ grantId }) => grantId))}::uuid[], ${textArray(asked.map(({ repo }) => repo))}::text[])
        WITH ORDINALITY AS k(grant_id, repo, n)
      JOIN repository_settings s ON s.grant_id = k.grant_id AND lower(s.repo) = lower(k.repo)`,
    (rows) => Batches.placed(asked, rows, ({ n }) => n).map(Exit.map((row) => row === null ? null : decode(row.settings)))
  )

/** A row if the grant is in use. Changes of one grant wait for each other. */
export const lockGrant = (sql: SqlClient.SqlClient, grantId: string) =>
  sql`SELECT FROM grants WHERE id = ${grantId} AND revoked_at IS NULL FOR NO KEY UPDATE`

export const saveSettings = (sql: SqlClient.SqlClient, { grantId, repo }: SettingsOf, settings: RepoSettings, at: DateTime.Utc) =>
  sql`
    INSERT INTO repository_settings (grant_id, repo, settings, set_at)
    VALUES (${grantId}, ${repo}, ${encode(settings)}::jsonb, ${DateTime.formatIso(at)})
    ON CONFLICT (grant_id, lower(repo)) DO UPDATE SET repo = excluded.repo, settings = excluded.settings, set_at = excluded.set_at`

export const deleteSettings = (sql: SqlClient.SqlClient, { grantId, repo }: SettingsOf) =>
  sql`DELETE FROM repository_settings WHERE grant_id = ${grantId} AND lower(repo) = lower(${repo})`
