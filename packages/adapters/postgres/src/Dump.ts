/**
 * Everything that is kept in a database, as rows of text in one snapshot, and back into an empty one.
 *
 * Why not the files of the cluster: the embedded server comes with `initdb`, `pg_ctl` and `postgres` alone, so there is neither
 * `pg_dump` nor `pg_basebackup`; `pg_backup_start` needs a superuser, whom it does not let in, and a `wal_level` it does not write.
 * And why not COPY: the driver does not speak it. One REPEATABLE READ transaction reads a single moment of all tables, delays no other
 * session, and its rows fit any later Postgres on any processor. Rows are text in Postgres' own spelling of the table's row type,
 * which every type reads back as it was.
 */
import { Effect, Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import * as Migrations from "./Migrations.ts"
import * as EarlierVersions from "./migrations/EarlierVersions.ts"
import { DatabaseSchema } from "./options/DatabaseSchema.ts"
import { textArray } from "./sql/TextArray.ts"

/** Rows of one answer at most: a row may have 2 MiB, a piece of a checkpoint in hexadecimal. */
const ROWS = 64
/** Characters that are read or written at a time, about. */
const AT_ONCE = 4 * 2 ** 20

export const Name = Schema.String.check(Schema.isPattern(/^[a-z_][a-z0-9_]{0,62}$/u))

export const Table = Schema.Struct({ name: Name, columns: Schema.Array(Name) })
export type Table = typeof Table.Type

/** `lastValue`: `null` where it never gave one. Above 2^53, hence text. */
export const Sequence = Schema.Struct({ name: Name, lastValue: Schema.NullOr(Schema.String.check(Schema.isPattern(/^-?\d{1,19}$/u))) })
export type Sequence = typeof Sequence.Type

/** The backup has tables or columns that this version makes differently, or not at all. Nothing was loaded. */
export class OtherSchema extends Schema.TaggedError<OtherSchema>()("OtherSchema", { table: Schema.String }) {
  override get message() {
    return `The table ${this.table} of the backup is not as this version of Slipway has it.`
  }
}

const quoted = (name: string) => `"${name.replaceAll("\"", "\"\"")}"`

/** The schema with the tables: that of the options, or `public` before an upgrade of an earlier version. */
const place = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const schema = yield* DatabaseSchema
  const [row] = yield* sql<{ readonly isThere: boolean }>`SELECT to_regclass(${`${schema}.effect_sql_migrations`}) IS NOT NULL AS "isThere"`
  return row?.isThere === true ? schema : "public"
})

const exactly = Effect.fnUntraced(function*(schema: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SET LOCAL search_path TO ${sql(schema)}`
  yield* sql`SET LOCAL DateStyle TO ISO`
  yield* sql`SET LOCAL IntervalStyle TO postgres`
  yield* sql`SET LOCAL bytea_output TO hex`
  yield* sql`SET LOCAL extra_float_digits TO 1`
})

/** Unlogged tables are left out, as after a crash. So is the list of migrations, which is kept apart from the rows. */
const tables = Effect.fnUntraced(function*(schema: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly name: string; readonly columns: string }>`
    SELECT c.relname AS name, json_agg(a.attname ORDER BY a.attnum)::text AS columns
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = ${schema}::regnamespace AND c.relkind = 'r' AND c.relpersistence = 'p'
      AND c.relname <> 'effect_sql_migrations'
    GROUP BY c.relname ORDER BY c.relname`
  return rows.map(({ columns, name }): Table => ({ name, columns: Schema.decodeUnknownSync(Columns)(columns) }))
})
const Columns = Schema.fromJsonString(Schema.Array(Schema.String))

/** By number and name, in order. */
const applied = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly id: number; readonly name: string }>`
    SELECT migration_id AS id, name FROM effect_sql_migrations ORDER BY migration_id`
  return rows.map(EarlierVersions.nameOf)
})

/** Sandboxes of which a machine has something that no checkpoint has: what their newest turn did. */
const unsaved = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly id: string }>`
    SELECT id FROM sandboxes
    WHERE status = 'running' AND is_unsaved(turn, checkpoint, origin, owes_checkpoint, pinned) ORDER BY id`
  return rows.map(({ id }) => id)
})

/** Checkpoints whose bytes lie in a folder and not in the database. */
const elsewhere = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly n: number }>`SELECT count(*)::int AS n FROM checkpoint_contents WHERE seen AND place = 'folder'`
  return row?.n ?? 0
})

/** How often the tables may be others once they are locked: migrations come one after the other. */
const TRIES = 5

/**
 * The tables, locked against changes of the schema. The locks come before the transaction's first query, whose snapshot is that of all
 * others: a migration that the locks wait for is in what is read then. `null`: it made other tables.
 */
const locked = Effect.fnUntraced(function*(schema: string, names: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`
  const all = [...names, "effect_sql_migrations"].map((name) => `${quoted(schema)}.${quoted(name)}`)
  yield* sql.unsafe(`LOCK TABLE ${all.join(", ")} IN ACCESS SHARE MODE`)
  yield* exactly(schema)
  const found = yield* tables(schema)
  return found.length === names.length && found.every(({ name }, i) => name === names[i]) ? found : null
})

/** A version without checkpoints: the functions and tables that a backup asks about them are not there yet. */
const WITHOUT_CHECKPOINTS = "0020_receipt_turns"

/**
 * Reads all tables as they are in one moment; `write` gets the rows of each, in pieces. Changes nothing, and delays only changes of the
 * schema.
 */
export const read = <E, R>(write: (table: Table, rows: Stream.Stream<ReadonlyArray<string>, unknown>) => Effect.Effect<void, E, R>) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const dump = Effect.gen(function*() {
      // Names that are gone by then fail the lock.
      const schema = yield* place
      const known = yield* tables(schema)
      return yield* sql.withTransaction(reading(schema, known.map(({ name }) => name)))
    })
    const reading = Effect.fnUntraced(function*(schema: string, names: ReadonlyArray<string>) {
      const found = yield* locked(schema, names)
      if (found === null) return null
      const migrations = yield* applied
      for (const [i, table] of found.entries()) {
        const cursor = `backup_${i}`
        yield* sql.unsafe(`DECLARE ${cursor} NO SCROLL CURSOR FOR SELECT t::text AS row FROM ${quoted(table.name)} t`)
        const next = (rows: number) =>
          Effect.map(sql.unsafe<{ readonly row: string }>(`FETCH ${rows} FROM ${cursor}`), (found) => found.map(({ row }) => row))
        yield* write(
          table,
          Stream.unfold(1, (rows) =>
            Effect.map(next(rows), (read) => {
              if (read.length === 0) return undefined
              const mean = read.reduce((sum, { length }) => sum + length, 0) / read.length
              return [read, Math.max(1, Math.min(ROWS, rows * 2, Math.floor(AT_ONCE / mean)))] as const
            }))
        )
        yield* sql.unsafe(`CLOSE ${cursor}`)
      }
      // After the rows: a sequence is of no snapshot, and may only be ahead of them.
      const sequences = yield* sql<Sequence>`
        SELECT sequencename AS name, last_value::text AS "lastValue" FROM pg_sequences WHERE schemaname = ${schema} ORDER BY sequencename`
      const [server] = yield* sql<{ readonly version: string }>`SELECT current_setting('server_version') AS version`
      const asks = migrations.at(-1) !== WITHOUT_CHECKPOINTS
      return {
        postgres: server?.version ?? "",
        migrations,
        sequences,
        unsaved: asks ? yield* unsaved : [],
        checkpointsElsewhere: asks ? yield* elsewhere : 0
      }
    })
    for (let i = 0; i < TRIES; i++) {
      const read = yield* dump
      if (read !== null) return read
    }
    return yield* Effect.die(new Error("the tables of the database change all the time"))
  })

/** Whether a backup with these migrations can be loaded: it is of this version, or of an earlier version that can be upgraded. */
export const isKnown = (wanted: ReadonlyArray<string>): boolean => EarlierVersions.versionOf(wanted) !== null

/**
 * As text that is one parameter, in parts of a bounded length. `missing`: columns at the end of the table that rows of an earlier version
 * lack. They are read as NULL, and get their defaults.
 */
const inserted = ({ columns, name }: Table, missing: number) =>
  `INSERT INTO ${quoted(name)} (${columns.map(quoted).join(", ")}) OVERRIDING SYSTEM VALUE ` +
  `SELECT ${columns.map((column) => `(r).${quoted(column)}`).join(", ")} ` +
  // OFFSET 0: or each column would read the whole row anew.
  `FROM (SELECT (left(text, -1) || '${",".repeat(missing)})')::${quoted(name)} AS r FROM unnest($1::text[]) AS text OFFSET 0) AS rows`

/** How many columns each table of a backup lacks. Fails where it has others than its version. */
const compared = Effect.fnUntraced(function*(wanted: ReadonlyArray<Table>, made: ReadonlyArray<Table>, isEarlier: boolean) {
  const missing = new Map<string, number>()
  for (const { columns, name } of wanted) {
    const own = made.find((table) => table.name === name)?.columns ?? []
    missing.set(name, own.length - columns.length)
    const isSame = columns.length > 0 && columns.every((column, i) => column === own[i])
    if (!isSame || !isEarlier && own.length !== columns.length) return yield* new OtherSchema({ table: name })
  }
  const absent = made.find(({ name }) => !missing.has(name))
  if (absent !== undefined && !isEarlier) return yield* new OtherSchema({ table: absent.name })
  return missing
})

/**
 * Fills an empty database with what {@link read} gave. All or nothing. Foreign keys are checked at the end, when all rows are there.
 */
export const load = <E, R>(
  wanted: {
    readonly migrations: ReadonlyArray<string>
    readonly tables: ReadonlyArray<Table>
    readonly sequences: ReadonlyArray<Sequence>
  },
  rowsOf: (table: Table) => Stream.Stream<ReadonlyArray<string>, E, R>
) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const schema = yield* DatabaseSchema
    const version = EarlierVersions.versionOf(wanted.migrations)
    yield* Migrations.run
    yield* sql.withTransaction(Effect.gen(function*() {
      yield* exactly(schema)
      const made = yield* tables(schema)
      const missing = yield* compared(wanted.tables, made, !EarlierVersions.isCurrent(version))
      const foreign = yield* sql<{ readonly of: string; readonly name: string; readonly definition: string }>`
        SELECT conrelid::regclass::text AS of, quote_ident(conname) AS name, pg_get_constraintdef(oid) AS definition FROM pg_constraint
        WHERE contype = 'f' AND connamespace = ${schema}::regnamespace ORDER BY conname`
      for (const { name, of } of foreign) yield* sql.unsafe(`ALTER TABLE ${of} DROP CONSTRAINT ${name}`)
      // The rows of a backup include what triggers wrote, and the audit log refuses changes.
      for (const { name } of made) yield* sql.unsafe(`ALTER TABLE ${quoted(name)} DISABLE TRIGGER USER`)
      for (const table of wanted.tables) {
        const statement = inserted(table, missing.get(table.name) ?? 0)
        yield* Stream.runForEach(rowsOf(table), (rows) => sql.unsafe(statement, [textArray(rows)]))
      }
      for (const { lastValue, name } of wanted.sequences) {
        if (lastValue !== null) yield* sql`SELECT setval(${quoted(name)}::regclass, ${lastValue}::bigint)`
      }
      for (const { name } of made) yield* sql.unsafe(`ALTER TABLE ${quoted(name)} ENABLE TRIGGER USER`)
      for (const { definition, name, of } of foreign) yield* sql.unsafe(`ALTER TABLE ${of} ADD CONSTRAINT ${name} ${definition}`)
      if (version !== null) yield* EarlierVersions.fill(version)
    }))
    yield* forgetMachines
  })

/** Longer than the longest time that a machine may take to come back, as `Policy.lost` says. */
const LONG = "interval '2 days'"

/** Machines have nothing of the loaded sandboxes. Workers do not wait for them: a sandbox goes on from its checkpoint at once. */
const forgetMachines = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE sandboxes SET worker = NULL, lease_until = least(lease_until, now() - ${sql.literal(LONG)}),
      work_since = CASE WHEN work IS NOT NULL THEN least(work_since, now() - ${sql.literal(LONG)}) END
    WHERE machine IS NOT NULL`
  // Those at rest are taken as soon as there is work for them.
  yield* sql`
    INSERT INTO drained_machines (machine, at) SELECT DISTINCT machine, now() FROM sandboxes WHERE machine IS NOT NULL
    ON CONFLICT (machine) DO UPDATE SET at = excluded.at`
})
