/**
 * Databases of earlier versions, for tests of the upgrade. `earlier/NNNN.sql` has the statements of migrations up to NNNN that come after
 * the file before it, one a line, and then a few rows. 0020, 0047 and 0060 are the newest migrations of commits 2213f8d, 7d7d40e
 * and 59299c1. `0061.sql` makes the whole schema of commit 037613a, which has the rows of the others. `0062.sql` adds what commit d7c08e3
 * has, to schema and rows, `0063.sql` what commit 2dc7a55 has, `0064.sql` what commit ea55af3 has, `0065.sql` what commit f8cc6f4
 * has, and `0066.sql` what commit f7952c2 has.
 */
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import * as Database from "../src/Database.ts"
import { DatabaseSchema } from "../src/options/DatabaseSchema.ts"

/** Their tables are in `public`. */
export const VERSIONS = ["0020", "0047", "0060"] as const
/** Their tables are in a schema of their own. */
export const WITH_SCHEMA = ["0061", "0062", "0063", "0064", "0065", "0066"] as const
export type Version = typeof VERSIONS[number] | typeof WITH_SCHEMA[number]

const statementsOf = (name: Version) =>
  readFileSync(new URL(`earlier/${name}.sql`, import.meta.url), "utf8").trim().split(/;\n|;$/u).filter((statement) => statement !== "")

/** Rows as such, not those that a migration wrote. */
const isRow = (statement: string) =>
  /^(?:INSERT INTO (?!effect_sql_migrations)\w+ \((?!.* SELECT DISTINCT )|SELECT tell_partners)/u.test(statement)

const statements = (version: Version): ReadonlyArray<string> => {
  if (version === "0066") return [...statements("0065"), ...statementsOf(version)]
  if (version === "0065") return [...statements("0064"), ...statementsOf(version)]
  if (version === "0064") return [...statements("0063"), ...statementsOf(version)]
  if (version === "0063") return [...statements("0062"), ...statementsOf(version)]
  if (version === "0062") return [...statements("0061"), ...statementsOf(version)]
  return version === "0061"
    ? [...statementsOf(version), ...VERSIONS.flatMap(statementsOf).filter(isRow)]
    : VERSIONS.slice(0, VERSIONS.indexOf(version) + 1).flatMap(statementsOf)
}

const made = (version: Version) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    for (const statement of statements(version)) yield* sql.unsafe(statement)
  }))

/** The address of a database as that version left it. */
export const database = (version: Version) => TestPostgres.database(made(version), `earlier_${version}`)

/** Runs with a connection as the service has it for its migrations, in this schema. */
export const connected = (url: string, schema = "slipway") => {
  const named = Layer.succeed(DatabaseSchema, schema)
  return Effect.provide(Database.layerMigrating({ url: Redacted.make(url) }).pipe(Layer.provideMerge(named)))
}

/** The rows of each table of a schema, as text without times of the upgrade itself. */
export const rowsIn = Effect.fnUntraced(function*(schema: string) {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<{ readonly name: string }>`
    SELECT tablename AS name FROM pg_tables WHERE schemaname = ${schema} AND tablename <> 'effect_sql_migrations' ORDER BY 1`
  const found: Record<string, ReadonlyArray<object>> = {}
  for (const { name } of tables) {
    const rows = yield* sql.unsafe<{ readonly row: object }>(
      `SELECT to_jsonb(t) - '{work_since,seen_at}'::text[] AS row FROM ${schema}.${name} t ORDER BY 1`
    )
    found[name] = rows.map(({ row }) => row)
  }
  return found
})
