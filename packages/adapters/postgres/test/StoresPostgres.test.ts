import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, it } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { principalOf } from "@slipway/domain/promise/Caller"
import * as Requests from "@slipway/domain/sandbox/usecases/Requests"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as Migrations from "../src/Migrations.ts"
import { DatabaseSchema } from "../src/options/DatabaseSchema.ts"
import * as Stores from "../src/Stores.ts"

/** The databases of tests search `slipway`, so only a schema of another name shows that the layer names it. */
const SCHEMA = "agents"

const empty = Effect.map(TestPostgres.database(Layer.empty), (url) => Redacted.make(url))
const own = (url: Redacted.Redacted, startupOptions: string) => ({ client: PgClient.layer({ url, startupOptions, maxConnections: 4 }) })

const useCases = Layer.merge(Sandboxes.layer, Access.layer)
const create = Effect.gen(function*() {
  const { grant } = yield* Access.use((access) => access.createGrant("acme"))
  const by = principalOf({ grantId: grant.id, organizationId: grant.organizationId, userId: "ada" })
  const request = yield* Requests.creation({ repos: [{ fullName: "acme/shop" }], prompt: "Say hello." })
  const { sandbox } = yield* Sandboxes.use((sandboxes) => sandboxes.create(by, request, Option.none()))
  return (yield* Sandboxes.use((sandboxes) => sandboxes.get(by, sandbox.id))).prompt
})
const createOn = <E = never>(options: Stores.Options<E>) => Effect.provide(create, Layer.provide(useCases, Stores.layer(options)))

const tables = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly schema: string }>`
    SELECT DISTINCT table_schema AS schema FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema')`
  return rows.map(({ schema }) => schema)
})

it.live("keeps everything in the schema that it is given", () =>
  Effect.gen(function*() {
    const url = yield* empty
    assert.strictEqual(yield* createOn({ database: url, schema: SCHEMA, pool: { writing: 2, reading: 1 } }), "Say hello.")
    assert.deepStrictEqual(yield* Effect.provide(tables, own(url, "").client), [SCHEMA])
  }))

it.live("works on the embedder's own client", () =>
  Effect.gen(function*() {
    const database = own(yield* empty, `-c search_path=${SCHEMA}`)
    assert.strictEqual(yield* createOn({ database, schema: SCHEMA }), "Say hello.")
  }))

it.live("refuses an own client that searches another schema first", () =>
  Effect.gen(function*() {
    const error = yield* Effect.flip(createOn({ database: own(yield* empty, ""), schema: SCHEMA }))
    assert.strictEqual(error._tag, "SchemaNotSearched")
    assert.include(error.message, SCHEMA)
  }))

/** As an embedder's own migration does it. */
const runStatements = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql.withTransaction(Effect.forEach(Migrations.statements(SCHEMA), (statement) => sql.unsafe(statement)))
})

it.live("changes no table without migrations, and needs those of its statements", () =>
  Effect.gen(function*() {
    const url = yield* empty
    const error = yield* Effect.flip(createOn({ database: url, schema: SCHEMA, migrate: false }))
    assert.strictEqual(error._tag, "SchemaMissing")
    const { client } = own(url, "")
    assert.deepStrictEqual(yield* Effect.provide(tables, client), [])
    yield* Effect.provide(Effect.andThen(runStatements, runStatements), client)
    assert.strictEqual(yield* createOn({ database: url, schema: SCHEMA, migrate: false }), "Say hello.")
    const later = Effect.provide(Effect.provideService(Migrations.run, DatabaseSchema, SCHEMA), own(url, `-c search_path=${SCHEMA}`).client)
    assert.deepStrictEqual(yield* later, [])
  }))
