/** Every change of the schema, in order. Append only: a migration that was released is never edited. */
import { Effect, Layer, Schema } from "effect"
import { Migrator, SqlClient } from "effect/sql"
import schema from "./migrations/0061_schema.ts"
import additions from "./migrations/0062_additions.ts"
import feedbackAndAutomations from "./migrations/0063_feedback_and_automations.ts"
import filesToolsQuestions from "./migrations/0064_files_tools_questions.ts"
import severalHosts from "./migrations/0065_several_hosts.ts"
import artifacts from "./migrations/0066_artifacts.ts"
import previewTickets from "./migrations/0067_preview_tickets.ts"
import { UnknownVersion } from "./migrations/EarlierVersions.ts"
import { DatabaseSchema } from "./options/DatabaseSchema.ts"
import { OptionNames } from "./options/OptionNames.ts"
import * as Tables from "./schema/Schema.ts"

/** By number and name. Numbers up to 60 are of versions that had their tables in `public`. */
export const migrations = {
  "0061_schema": schema,
  "0062_additions": additions,
  "0063_feedback_and_automations": feedbackAndAutomations,
  "0064_files_tools_questions": filesToolsQuestions,
  "0065_several_hosts": severalHosts,
  "0066_artifacts": artifacts,
  "0067_preview_tickets": previewTickets
}

/** The role of the connection may not create the schema. */
export class SchemaRefused extends Schema.TaggedError<SchemaRefused>()("SchemaRefused", {
  schema: Schema.String,
  /** The name of the option: see {@link OptionNames}. */
  option: Schema.String
}) {
  override get message() {
    return `The role of the database may not create the schema ${this.schema} (${this.option}): ` +
      `let its owner run CREATE SCHEMA ${this.schema} AUTHORIZATION with that role's name.`
  }
}

/** A schema that exists is taken as it is: the role may own it without the right to create others. */
const created = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const name = yield* DatabaseSchema
  if ((yield* sql`SELECT FROM pg_namespace WHERE nspname = ${name}`).length > 0) return
  yield* sql.withTransaction(Effect.gen(function*() {
    yield* sql`SELECT pg_advisory_xact_lock(hashtextextended('slipway_schema', 0))`
    yield* sql`CREATE SCHEMA IF NOT EXISTS ${sql(name)}`
  }))
}).pipe(
  Effect.catchIf(
    ({ reason }) => reason._tag === "AuthorizationError",
    () =>
      Effect.flatMap(
        Effect.all([DatabaseSchema, OptionNames]),
        ([name, nameOf]) => new SchemaRefused({ schema: name, option: nameOf("databaseSchema") })
      )
  )
)

/** The connection looks in another schema first, where the tables would be made. */
export class SchemaNotSearched extends Schema.TaggedError<SchemaNotSearched>()("SchemaNotSearched", { schema: Schema.String }) {
  override get message() {
    return `The search_path of the database connection must begin with ${this.schema}: set it for every connection of the pool.`
  }
}

const searched = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const name = yield* DatabaseSchema
  const [row] = yield* sql<{ readonly first: string | null }>`SELECT current_schema() AS first`
  if (row?.first !== name) return yield* new SchemaNotSearched({ schema: name })
})

/** In one transaction under a lock: of several processes that start, one does it and the others wait. Answers what was applied. */
export const run = Effect.gen(function*() {
  yield* created
  yield* searched
  return yield* Migrator.make({})({ loader: Migrator.fromRecord(migrations) }).pipe(
    Effect.mapError((error) => error._tag === "MigrationError" && error.cause instanceof UnknownVersion ? error.cause : error)
  )
})

/** Brings the database up to date when the layer is built. */
export const layer = Layer.effectDiscard(
  Effect.tap(run, (applied) => applied.length === 0 ? Effect.void : Effect.logInfo("migrations applied", { count: applied.length }))
)

/** The schema does not have the tables of this version. */
export class SchemaMissing extends Schema.TaggedError<SchemaMissing>()("SchemaMissing", { schema: Schema.String }) {
  override get message() {
    return `The schema ${this.schema} of the database does not have the tables of this version: run its migrations.`
  }
}

const TABLE = "effect_sql_migrations"
const applied = Object.keys(migrations).map((key) => /^(\d+)_(\w+)$/u.exec(key)).flatMap((match) =>
  match === null ? [] : [{ id: Number(match[1]), name: String(match[2]) }]
)

/** Checks when the layer is built that the database is up to date, and changes nothing. */
export const layerCheck = Layer.effectDiscard(Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const schema = yield* DatabaseSchema
  const [row] = yield* sql<{ readonly isThere: boolean }>`SELECT to_regclass(${`${schema}.${TABLE}`}) IS NOT NULL AS "isThere"`
  if (row?.isThere !== true) return yield* new SchemaMissing({ schema })
  yield* searched
  const rows = yield* sql<{ readonly id: number }>`SELECT migration_id AS id FROM ${sql(TABLE)}`
  if (applied.some(({ id }) => !rows.some((row) => row.id === id))) return yield* new SchemaMissing({ schema })
}))

/**
 * The SQL of `run` for an embedder's own migrations, a statement each: joined with `;` it is a script for `psql`. It makes the schema with
 * all tables, or adds those that a newer version has. Every statement may run again. Run all in one transaction. Tables in `public` of
 * versions before the schema are not moved: `run` does that.
 */
export const statements = (schema = "slipway"): ReadonlyArray<string> => [
  `CREATE SCHEMA IF NOT EXISTS ${schema}`,
  `SET LOCAL search_path TO ${schema}`,
  ...Tables.statementsIn(schema),
  `CREATE TABLE IF NOT EXISTS ${TABLE}
    (migration_id integer PRIMARY KEY, created_at timestamptz NOT NULL DEFAULT now(), name text NOT NULL)`,
  ...applied.map(({ id, name }) => `INSERT INTO ${TABLE} (migration_id, name) VALUES (${id}, '${name}') ON CONFLICT DO NOTHING`)
]
