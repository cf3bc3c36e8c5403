/** The statements on `model_providers`, by its primary key. */
import { ProviderName } from "@slipway/domain/models/schema/ModelProvider"
import { DateTime, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { Instant } from "../sql/Instant.ts"

const Row = Schema.Struct({
  provider: ProviderName,
  sealed: Schema.NullOr(Schema.RedactedFromValue(Schema.String)),
  baseUrl: Schema.NullOr(Schema.String),
  model: Schema.NullOr(Schema.String),
  isDefault: Schema.Boolean,
  setAt: Instant
})
export type Row = typeof Row.Type

/** All rows, in order of name. */
export const selectProviders = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: Row,
    execute: () =>
      sql`
        SELECT provider, sealed, base_url AS "baseUrl", model, is_default AS "isDefault", set_at AS "setAt"
        FROM model_providers ORDER BY provider COLLATE "C"`
  })(undefined)

/** Changes wait for each other, because a new default changes the row of the one before. */
export const lockProviders = (sql: SqlClient.SqlClient) => sql`SELECT pg_advisory_xact_lock(hashtextextended('model_providers', 0))`

export const clearDefault = (sql: SqlClient.SqlClient) => sql`UPDATE model_providers SET is_default = false WHERE is_default`

export const saveProvider = (
  sql: SqlClient.SqlClient,
  { baseUrl, isDefault, model, provider, sealed, setAt }: Omit<Row, "sealed"> & { readonly sealed: string | null }
) =>
  sql`
    INSERT INTO model_providers (provider, sealed, base_url, model, is_default, set_at)
    VALUES (${provider}, ${sealed}, ${baseUrl}, ${model}, ${isDefault}, ${DateTime.formatIso(setAt)})
    ON CONFLICT (provider) DO UPDATE SET sealed = excluded.sealed, base_url = excluded.base_url, model = excluded.model,
      is_default = excluded.is_default, set_at = excluded.set_at`

/** A row if it was there. */
export const deleteProvider = (sql: SqlClient.SqlClient, provider: ProviderName) =>
  sql`DELETE FROM model_providers WHERE provider = ${provider} RETURNING 1`
