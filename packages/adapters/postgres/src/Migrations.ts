/** Every change of the schema, in order. Append only: a migration that was released is never edited. */
import { Effect, Layer, Schema } from "effect"
import { Migrator, SqlClient } from "effect/sql"
import schema from "./migrations/0061_schema.ts"
import { UnknownVersion } from "./migrations/EarlierVersions.ts"
import { DatabaseSchema } from "./options/DatabaseSchema.ts"
import { OptionNames } from "./options/OptionNames.ts"

/** By number and name. Numbers up to 60 are of versions that had their tables in `public`. */
export const migrations = { "0061_schema": schema }

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

/** Else the tables would be made where the connection looks first. */
const searched = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const name = yield* DatabaseSchema
  const [row] = yield* sql<{ readonly first: string | null }>`SELECT current_schema() AS first`
  if (row?.first !== name) return yield* Effect.die(new Error(`search_path of the connection must begin with ${name}: see Database.layer`))
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
