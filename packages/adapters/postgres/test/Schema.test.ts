/** The schema, and the upgrade of earlier versions to it. */
import { assert, describe, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { Effect, Layer, Redacted } from "effect"
import { Migrator, SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { inspect } from "node:util"
import * as Database from "../src/Database.ts"
import * as Migrations from "../src/Migrations.ts"
import { DatabaseSchema, PATTERN } from "../src/options/DatabaseSchema.ts"
import * as Earlier from "./Earlier.ts"

/** Everything that the catalog says of a schema, a line each, but for the schema's own name. */
const catalog = Effect.fnUntraced(function*(schema: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly line: string }>`
    WITH own AS (SELECT oid FROM pg_namespace WHERE nspname = ${schema}),
    relations AS (SELECT c.* FROM pg_class c, own WHERE c.relnamespace = own.oid)
    SELECT concat_ws(' ', relkind, relname, relpersistence, reloptions::text, relreplident, relrowsecurity) AS line FROM relations
    UNION ALL SELECT concat_ws(' ', 'column', r.relname,
      row_number() OVER (PARTITION BY r.oid ORDER BY a.attnum), a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
      pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated, a.attstorage, a.attcompression, a.attstattarget, a.attcollation,
      a.attoptions::text)
    FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
    UNION ALL SELECT concat_ws(' ', 'constraint', conrelid::regclass, conname, contype, condeferrable, convalidated,
      pg_get_constraintdef(c.oid))
    FROM pg_constraint c, own WHERE c.connamespace = own.oid
    UNION ALL SELECT pg_get_indexdef(r.oid) FROM relations r WHERE relkind = 'i'
    UNION ALL SELECT pg_get_functiondef(p.oid) FROM pg_proc p, own WHERE p.pronamespace = own.oid
    UNION ALL SELECT concat_ws(' ', pg_get_triggerdef(t.oid), tgenabled) FROM pg_trigger t JOIN relations r ON r.oid = t.tgrelid
      WHERE NOT tgisinternal
    UNION ALL SELECT concat_ws(' ', 'sequence', r.relname, format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmax, s.seqmin,
      s.seqcache, s.seqcycle, pg_get_serial_sequence(d.refobjid::regclass::text, a.attname))
    FROM relations r JOIN pg_sequence s ON s.seqrelid = r.oid
    LEFT JOIN pg_depend d ON d.objid = r.oid AND d.deptype = 'i'
    LEFT JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
    UNION ALL SELECT concat_ws(' ', 'type', typname, typtype) FROM pg_type t, own WHERE t.typnamespace = own.oid
    UNION ALL SELECT concat_ws(' ', 'statistics', stxname) FROM pg_statistic_ext s, own WHERE s.stxnamespace = own.oid
    UNION ALL SELECT concat_ws(' ', 'comment', r.relname, d.objsubid, d.description)
    FROM pg_description d JOIN relations r ON r.oid = d.objoid AND d.classoid = 'pg_class'::regclass
    ORDER BY 1`
  return rows.map(({ line }) => line.replaceAll(new RegExp(`\\b${schema}\\.`, "gu"), ""))
})

const fresh = Effect.flatMap(TestPostgres.database(Migrations.layer), (url) => Earlier.connected(url)(catalog("slipway")))

/** The only line that says which version the database has. */
const applied = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  return yield* sql`SELECT migration_id AS id, name FROM effect_sql_migrations`
})

const ALL = [
  { id: 61, name: "schema" },
  { id: 62, name: "additions" },
  { id: 63, name: "feedback_and_automations" },
  { id: 64, name: "files_tools_questions" },
  { id: 65, name: "several_hosts" },
  { id: 66, name: "artifacts" },
  { id: 67, name: "preview_tickets" }
]

it.live.each(Earlier.WITH_SCHEMA)(
  "a database of migration %s has its schema already, gets what came later, and keeps its rows",
  (version) =>
    Effect.gen(function*() {
      const url = yield* Earlier.database(version)
      const expected = yield* fresh
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const before = yield* Earlier.rowsIn("slipway")
        const later = ALL.filter(({ id }) => id > Number(version))
        assert.deepStrictEqual(yield* Migrations.run, later.map(({ id, name }) => [id, name] as const))
        assert.deepStrictEqual(yield* catalog("slipway"), expected)
        assert.deepStrictEqual(yield* applied, ALL)
        const after = yield* Earlier.rowsIn("slipway")
        for (const [table, rows] of Object.entries(before)) assert.lengthOf(after[table] ?? [], rows.length, table)
        assert.deepStrictEqual(
          yield* sql`SELECT count(*) AS texts FROM search_texts`,
          yield* sql`SELECT (SELECT count(*) FROM sandboxes) + (SELECT count(*) FROM messages) AS texts`
        )
      }).pipe(Earlier.connected(url))
    })
)

it.live("a database of the version before keeps its rows as they are, and nothing is added", () =>
  Effect.gen(function*() {
    const url = yield* Earlier.database("0066")
    yield* Effect.gen(function*() {
      const before = yield* Earlier.rowsIn("slipway")
      yield* Migrations.run
      const after = yield* Earlier.rowsIn("slipway")
      for (const [table, rows] of Object.entries(after)) assert.deepStrictEqual(rows, before[table] ?? [], table)
      for (const table of ["ci_trusts", "mcp_servers", "sandboxes", "users"]) assert.isNotEmpty(before[table] ?? [], table)
    }).pipe(Earlier.connected(url))
  }))

describe.each(Earlier.VERSIONS)("a database of the version with migration %s", (version) => {
  it.live("has the catalog of a fresh one once it is upgraded, and all its rows", () =>
    Effect.gen(function*() {
      const url = yield* Earlier.database(version)
      const expected = yield* fresh
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const before = yield* Earlier.rowsIn("public")
        yield* Migrations.run
        assert.deepStrictEqual(yield* catalog("slipway"), expected)
        assert.deepStrictEqual(yield* applied, ALL)
        const after = yield* Earlier.rowsIn("slipway")
        for (const [table, rows] of Object.entries(before)) {
          assert.isNotEmpty(rows, table)
          assert.lengthOf(after[table] ?? [], rows.length, table)
        }
        const worked = "SELECT substr(id, 3, 1) AS id, work, owes_checkpoint AS owes, (work IS NULL) = (work_since IS NULL) AS dated"
        assert.deepStrictEqual(yield* sql.unsafe(`${worked} FROM sandboxes ORDER BY id`), [
          { id: "a", work: "boot", owes: false, dated: true },
          { id: "b", work: "errand", owes: true, dated: true },
          { id: "c", work: "turn", owes: false, dated: true },
          { id: "d", work: null, owes: false, dated: true },
          { id: "e", work: "errand", owes: false, dated: true },
          { id: "f", work: null, owes: false, dated: true },
          { id: "g", work: "errand", owes: false, dated: true }
        ])
        assert.deepStrictEqual(yield* sql`SELECT sandbox_id FROM resting_sandboxes`, [{ sandbox_id: "c_dddddddddddd" }])
        assert.deepStrictEqual(yield* sql`SELECT repo, sha, merged FROM pushed_commits ORDER BY sha`, [
          { repo: "acme/shop", sha: "aa", merged: true },
          { repo: "acme/shop", sha: "bb", merged: false }
        ])
        // All prompts and messages are found.
        const [{ texts, found } = {}] = yield* sql<{ readonly texts: bigint; readonly found: bigint }>`
          SELECT (SELECT count(*) FROM sandboxes) + (SELECT count(*) FROM messages) AS texts, count(*) AS found FROM search_texts`
        assert.strictEqual(found, texts)
      }).pipe(Earlier.connected(url))
    }))

  it.live("has the rows that migration after migration would have given it", () =>
    Effect.gen(function*() {
      const rowsOf = (from: Earlier.Version) =>
        Effect.flatMap(Earlier.database(from), (url) =>
          Effect.andThen(Migrations.run, Earlier.rowsIn("slipway")).pipe(Earlier.connected(url)))
      const [once, step] = [yield* rowsOf(version), yield* rowsOf("0060")]
      // Rows of tables that came later were written later.
      const written = Object.keys(once).filter((table) =>
        once[table]?.length !== 0
      )
      assert.isAbove(written.length, 35)
      for (const table of written) assert.deepStrictEqual(once[table], step[table], table)
    }))

  it.live("keeps its tables where they are if the setting says public", () =>
    Effect.gen(function*() {
      const url = yield* Earlier.database(version)
      const expected = yield* fresh
      yield* Effect.gen(function*() {
        const before = yield* Earlier.rowsIn("public")
        yield* Migrations.run
        assert.deepStrictEqual(yield* catalog("public"), expected)
        assert.deepStrictEqual(yield* applied, ALL)
        assert.containsAllKeys(yield* Earlier.rowsIn("public"), Object.keys(before))
      }).pipe(Earlier.connected(url, "public"))
      // Without the setting they move.
      yield* Effect.gen(function*() {
        yield* Migrations.run
        assert.deepStrictEqual(yield* catalog("slipway"), expected)
        assert.deepStrictEqual(yield* Effect.map(catalog("public"), (lines) => lines.filter((line) => line.startsWith("r "))), [
          "r effect_sql_migrations p d f"
        ])
      }).pipe(Earlier.connected(url))
    }))
})

describe("an upgrade", () => {
  it.live("is done once, whichever of several processes does it", () =>
    Effect.gen(function*() {
      const url = yield* Earlier.database("0047")
      const run = Migrations.run.pipe(Earlier.connected(url))
      const all = yield* Effect.all([run, run, run], { concurrency: "unbounded" })
      assert.deepStrictEqual(all.flat(), ALL.map(({ id, name }) => [id, name] as const))
      assert.deepStrictEqual(yield* run, [])
    }))

  it.live("is done whole or not at all", () =>
    Effect.gen(function*() {
      const url = yield* Earlier.database("0020")
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const before = [yield* catalog("public"), yield* Earlier.rowsIn("public")]
        yield* sql`CREATE SCHEMA slipway CREATE TABLE workers (id int) CREATE TABLE webhook_deliveries (id int)`
        assert.strictEqual((yield* Effect.flip(Migrations.run))._tag, "MigrationError")
        assert.deepStrictEqual([yield* catalog("public"), yield* Earlier.rowsIn("public")], before)
        yield* sql`DROP SCHEMA slipway CASCADE`
        yield* Migrations.run
        assert.deepStrictEqual(yield* catalog("slipway"), yield* fresh)
      }).pipe(Earlier.connected(url))
    }))

  it.live("does not begin from a version that it does not know, and says what to do", () =>
    Effect.gen(function*() {
      const url = yield* Earlier.database("0047")
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* sql`INSERT INTO public.effect_sql_migrations (migration_id, name) VALUES (53, 'trusted_refs')`
        const { message } = yield* Effect.flip(Migrations.run)
        assert.match(message, /^The database has the schema of another version \(0053_trusted_refs\).*start commit 59299c1.*once[^\n]*$/u)
        assert.lengthOf(yield* sql`SELECT FROM public.sandboxes`, 7)
        assert.lengthOf(yield* sql`SELECT FROM pg_tables WHERE schemaname = 'slipway' AND tablename = 'sandboxes'`, 0)
      }).pipe(Earlier.connected(url))
    }))

  it.live("leaves behind what keeps a process of the earlier version from making its tables again", () =>
    Effect.gen(function*() {
      const url = yield* Earlier.database("0047")
      yield* Migrations.run.pipe(Earlier.connected(url))
      const theirs = { "0001_sandboxes": Effect.die("ran"), "0060_calls_by_age": Effect.die("ran") }
      assert.deepStrictEqual(
        yield* Migrator.make({})({ loader: Migrator.fromRecord(theirs) }).pipe(Earlier.connected(url, "public")),
        []
      )
    }))

  it.live("leaves alone the tables of other programs, which may keep migrations by the same name", () =>
    Effect.gen(function*() {
      const url = yield* TestPostgres.database(Layer.empty)
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE TABLE public.effect_sql_migrations (migration_id integer PRIMARY KEY, name text NOT NULL)`
        yield* sql`INSERT INTO public.effect_sql_migrations VALUES (1, 'theirs')`
        yield* sql`CREATE TABLE public.sandboxes (id int)`
        yield* Migrations.run
        assert.deepStrictEqual(yield* catalog("slipway"), yield* fresh)
        assert.deepStrictEqual(yield* sql`SELECT migration_id AS id, name FROM public.effect_sql_migrations`, [{ id: 1, name: "theirs" }])
      }).pipe(Earlier.connected(url))
    }))
})

describe("the schema", () => {
  it.live("may have any name, and several may be in one database", () =>
    Effect.gen(function*() {
      const url = yield* TestPostgres.database(Layer.empty)
      const expected = yield* fresh
      for (const name of ["slipway", "other"]) {
        yield* Effect.andThen(Migrations.run, catalog(name)).pipe(
          Effect.map((found) => assert.deepStrictEqual(found, expected)),
          Earlier.connected(url, name)
        )
      }
      for (const name of ["slipway", "_1", "public"]) assert.match(name, PATTERN)
      for (const name of ["", "Slipway", "1a", "a-b", "a.b", "pg_toast", "information_schema", "a".repeat(64)]) {
        assert.notMatch(name, PATTERN)
      }
    }))

  it.live("is what connections of the service search, after what Postgres itself has and before nothing else", () =>
    Effect.gen(function*() {
      const url = Redacted.make(yield* TestPostgres.database(Layer.empty))
      const searched = (sql: SqlClient.SqlClient) => Effect.map(sql`SELECT current_schemas(true)::text AS path`, ([row]) => row?.["path"])
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE SCHEMA other`
        for (const client of [sql, (yield* Database.Reads) ?? sql, (yield* Database.Renewals) ?? sql]) {
          assert.strictEqual(yield* searched(client), "{pg_catalog,other}")
        }
      }).pipe(Effect.provide(Database.layer({ url })), Effect.provide(Layer.succeed(DatabaseSchema, "other")))
    }))

  it.live("has functions and triggers that work with any search_path", () =>
    Effect.gen(function*() {
      const url = yield* Earlier.database("0020")
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* Migrations.run
        yield* sql`SET search_path TO ''`
        yield* sql`UPDATE slipway.sandboxes SET status = 'running', turn = NULL, last_seq = 3 WHERE id = 'c_aaaaaaaaaaaa'`
        yield* sql`UPDATE slipway.sandboxes SET publications = '[{"repo":"Acme/Shop","headSha":"cc"}]' WHERE id = 'c_aaaaaaaaaaaa'`
        yield* sql`UPDATE slipway.sandboxes SET drained = true, moved = 'lost', moved_from = 'm', moved_fence = 0`
        yield* sql`UPDATE slipway.sandboxes SET fence = fence + 1`
        assert.lengthOf(yield* sql`SELECT FROM slipway.sandboxes WHERE drained OR moved IS NOT NULL`, 0)
        assert.lengthOf(yield* sql`SELECT FROM slipway.resting_sandboxes`, 2)
        assert.lengthOf(yield* sql`SELECT FROM slipway.pushed_commits WHERE sha = 'cc'`, 1)
        yield* sql`
          INSERT INTO slipway.checkpoint_contents (sandbox_id, checkpoint, fence, place) VALUES ('c_aaaaaaaaaaaa', 1, 1, 'database')`
        yield* sql`
          INSERT INTO slipway.checkpoints (sandbox_id, checkpoint, content, created_at, bytes, repos)
          SELECT sandbox_id, checkpoint, id, now(), 1, '[]' FROM slipway.checkpoint_contents`
        assert.lengthOf(yield* sql`SELECT FROM slipway.checkpoint_contents WHERE seen`, 1)
        assert.include(inspect(yield* Effect.flip(sql`DELETE FROM slipway.audit_log`)), "append only")
        const [slot] = yield* sql`SELECT * FROM slipway.take_rate_slots(ARRAY[${randomUUID()}::uuid, ${randomUUID()}::uuid], '{2,9}')`
        assert.deepStrictEqual([slot?.["taken"], slot?.["remaining"]], [true, 1])
        yield* sql`
          SELECT slipway.lock_attribution(organization_id),
            slipway.start_task('c_aaaaaaaaaaaa', recipient_id, organization_id, 'acme/shop', now(), ${randomUUID()}::uuid)
          FROM slipway.recipient_touches`
        assert.lengthOf(yield* sql`SELECT FROM slipway.partner_events WHERE natural_id = 'c_aaaaaaaaaaaa'`, 1)
      }).pipe(Earlier.connected(url))
    }))

  it.live("may be made by another role, else the service's role says what it lacks", () =>
    Effect.gen(function*() {
      const url = new URL(yield* TestPostgres.database(Layer.empty))
      const role = `limited_${randomUUID().replaceAll("-", "")}`
      const asAdmin = (statements: ReadonlyArray<string>) =>
        Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.forEach(statements, (statement) => sql.unsafe(statement))).pipe(
          Earlier.connected(url.href)
        )
      const own = new URL(url)
      own.searchParams.set("user", role)
      yield* Effect.acquireRelease(asAdmin([`CREATE ROLE ${role} LOGIN`]), () =>
        Effect.orDie(asAdmin(["DROP SCHEMA IF EXISTS slipway CASCADE", `DROP ROLE ${role}`])))
      const run = Migrations.run.pipe(Earlier.connected(own.href))
      const refused = yield* Effect.flip(run)
      assert.match(refused.message, /may not create the schema slipway.*CREATE SCHEMA slipway AUTHORIZATION/u)
      yield* asAdmin(["CREATE SCHEMA slipway", `GRANT ALL ON SCHEMA slipway TO ${role}`])
      assert.deepStrictEqual(
        yield* run,
        ALL.map(({ id, name }) =>
          [id, name] as const
        )
      )
    }).pipe(Effect.scoped))
})
