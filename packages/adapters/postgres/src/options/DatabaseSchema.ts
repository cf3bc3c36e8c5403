/** The schema of the database that has Slipway's tables. Connections of `Database` search it, `Migrations` creates it. */
import * as Context from "effect/Context"

/** Lower case, so that it needs no quotes anywhere. Postgres keeps `pg_` and `information_schema` for itself. */
export const PATTERN = /^(?!pg_|information_schema$)[a-z_][a-z0-9_]{0,62}$/u

export const DatabaseSchema = Context.Reference<string>("@slipway/postgres/options/DatabaseSchema", { defaultValue: () => "slipway" })
