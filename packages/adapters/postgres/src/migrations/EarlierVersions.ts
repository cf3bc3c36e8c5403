/**
 * Databases of versions that had their tables in `public`, made by migrations 1 to 60. They are brought up to date in one step: the tables
 * move, the columns that are missing are added, `Schema.create` does the rest, and {@link fill} writes what new columns and tables mean
 * for the rows that are there.
 */
import { SEARCHED_MESSAGES } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { functions, tables } from "../schema/Schema.ts"

/** The newest migration of a version that can be upgraded. */
export type Version = typeof VERSIONS[number]["newest"]

/**
 * `count`: of migrations. Commits 2213f8d, 7d7d40e, 59299c1, 037613a, d7c08e3, 2dc7a55, ea55af3, f8cc6f4 and f7952c2; then this one. The
 * last seven can be in `public` by the setting.
 */
const VERSIONS = [
  { newest: "0020_receipt_turns", count: 16 },
  { newest: "0047_open_calls", count: 36 },
  { newest: "0060_calls_by_age", count: 44 },
  { newest: "0061_schema", count: 1 },
  { newest: "0062_additions", count: 2 },
  { newest: "0063_feedback_and_automations", count: 3 },
  { newest: "0064_files_tools_questions", count: 4 },
  { newest: "0065_several_hosts", count: 5 },
  { newest: "0066_artifacts", count: 6 },
  { newest: "0067_preview_tickets", count: 7 }
] as const

/** Whether a database of that version has all tables and columns of this one. */
export const isCurrent = (version: Version | null) => version === VERSIONS.at(-1)?.newest

/** The newest migration of versions that knew no schema but `public`. */
const LAST = 60

type Added = Readonly<Record<string, ReadonlyArray<string>>>

/** A budget of its own and variables of a sandbox. */
const CREATION_INPUTS: Added = {
  sandboxes: ["COLUMN budget_micro_usd bigint CHECK (budget_micro_usd >= 1)", "COLUMN environment jsonb"],
  sandbox_spending: ["COLUMN budget bigint CHECK (budget >= 1)"]
}

/** The files of prompts. */
const PROMPT_FILES: Added = {
  sandboxes: ["COLUMN files jsonb"],
  messages: ["COLUMN files jsonb"]
}

/** The MCP servers that a creation chose. */
const MCP_SERVERS: Added = { sandboxes: ["COLUMN mcp_servers jsonb"] }

/** Accounts of OpenID Connect, where a session began, and viewers. */
const SIGN_IN: Added = {
  memberships: ["COLUMN viewer text CHECK (viewer IN ('active', 'removed'))"],
  users: ["COLUMN oidc_subject text UNIQUE CHECK (oidc_subject <> '')"],
  sessions: ["COLUMN identity_provider text CHECK (identity_provider IN ('github', 'oidc'))"]
}

/** The columns of migration 64, a piece for each capability, in the order in which fresh tables have them. */
const ADDED_BY_64: ReadonlyArray<Added> = [CREATION_INPUTS, PROMPT_FILES, MCP_SERVERS, SIGN_IN]

/** The columns of all pieces, by table. */
const joined = (pieces: ReadonlyArray<Added>): Added => {
  const all: Record<string, ReadonlyArray<string>> = {}
  for (const piece of pieces) {
    for (const [table, columns] of Object.entries(piece)) all[table] = [...all[table] ?? [], ...columns]
  }
  return all
}

/** Columns and checks that came after each version, in the order in which a fresh table has them. */
const SINCE: Readonly<Record<Version, Added>> = {
  "0020_receipt_turns": {
    sandboxes: [
      "COLUMN checkpoint integer NOT NULL DEFAULT 0",
      "COLUMN owes_checkpoint boolean NOT NULL DEFAULT false",
      "COLUMN restoring integer",
      "COLUMN restores integer NOT NULL DEFAULT 0",
      "COLUMN origin jsonb",
      "COLUMN work text CHECK (work IN ('boot', 'turn', 'errand'))",
      "COLUMN work_since timestamptz",
      "COLUMN work_seq bigint",
      "COLUMN drained boolean NOT NULL DEFAULT false",
      "CHECK ((work IS NULL) = (work_since IS NULL))",
      "COLUMN pinned boolean NOT NULL DEFAULT false",
      "COLUMN moved text CHECK (moved IN ('drained', 'lost'))",
      "COLUMN moved_from text",
      "COLUMN moved_fence bigint",
      "CHECK ((moved IS NULL) = (moved_from IS NULL) AND (moved IS NULL) = (moved_fence IS NULL))",
      "COLUMN setup_time jsonb",
      "COLUMN waiting jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_array_length(waiting) <= 10)",
      "COLUMN waiting_texts jsonb NOT NULL DEFAULT '[]'",
      "COLUMN turnless bigint NOT NULL DEFAULT 0",
      "CHECK (jsonb_array_length(waiting) = jsonb_array_length(waiting_texts))",
      "COLUMN tokens jsonb NOT NULL DEFAULT '{\"input\":0,\"cachedInput\":0,\"output\":0}'"
    ],
    worker_links: ["COLUMN machine text"],
    approvals: ["COLUMN reason text CHECK (reason IS NULL OR outcome = 'denied' AND length(reason) BETWEEN 1 AND 2000)"],
    sandbox_spending: [
      "COLUMN input_tokens bigint NOT NULL DEFAULT 0 CHECK (input_tokens >= 0)",
      "COLUMN cached_input_tokens bigint NOT NULL DEFAULT 0 CHECK (cached_input_tokens >= 0)",
      "COLUMN output_tokens bigint NOT NULL DEFAULT 0 CHECK (output_tokens >= 0)"
    ]
  },
  "0047_open_calls": {
    webhook_deliveries: ["COLUMN unread text"],
    sandboxes: ["COLUMN recorded_at timestamptz"],
    device_logins: ["COLUMN network text"]
  },
  "0060_calls_by_age": {},
  "0061_schema": {
    sandboxes: ["COLUMN renames integer NOT NULL DEFAULT 0"],
    worker_offers: ["COLUMN isolation jsonb"]
  },
  "0062_additions": {
    sandboxes: [
      "COLUMN feedback jsonb",
      "COLUMN archived_at timestamptz(3)",
      "COLUMN deleted_at timestamptz(3)",
      "COLUMN continues jsonb",
      "COLUMN syncing boolean NOT NULL DEFAULT false",
      "COLUMN syncs integer NOT NULL DEFAULT 0"
    ],
    grants: ["COLUMN retention_days integer CHECK (retention_days BETWEEN 1 AND 3650)", "COLUMN branch_rules text[]"],
    webhook_endpoints: [
      "COLUMN notifications text[] CHECK (cardinality(notifications) > 0)",
      "COLUMN refusing_since timestamptz(3)",
      "COLUMN silenced_at timestamptz(3)"
    ],
    webhook_deliveries: ["COLUMN sandbox_id text", "COLUMN type text"]
  },
  "0063_feedback_and_automations": joined(ADDED_BY_64),
  "0064_files_tools_questions": {},
  "0065_several_hosts": {},
  "0066_artifacts": {},
  "0067_preview_tickets": {}
}

/** The tables in `public` are of another version than this one can upgrade. Nothing was changed. */
export class UnknownVersion extends Schema.TaggedError<UnknownVersion>()("UnknownVersion", { newest: Schema.String }) {
  override get message() {
    return `The database has the schema of another version (${this.newest}), which this one cannot upgrade: ` +
      "start commit 59299c1 of Slipway on it once, then this one (docs/upgrade.md)."
  }
}

/** The version that these migrations made, by number and name. */
export const versionOf = (migrations: ReadonlyArray<string>): Version | null =>
  VERSIONS.find(({ count, newest }) => count === migrations.length && newest === migrations.at(-1))?.newest ?? null

export const nameOf = ({ id, name }: { readonly id: number; readonly name: string }) => `${String(id).padStart(4, "0")}_${name}`

/**
 * The version of the tables in `public` that are to be in `schema`; `null`: no tables of Slipway are there. Locks out processes of that
 * version that would migrate.
 */
export const find = Effect.fnUntraced(function*(schema: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly isThere: boolean }>`
    SELECT to_regclass('public.effect_sql_migrations') IS NOT NULL AND to_regclass('public.sandboxes') IS NOT NULL AS "isThere"`
  if (row?.isThere !== true) return null
  yield* sql`LOCK TABLE public.effect_sql_migrations IN ACCESS EXCLUSIVE MODE`
  const rows = yield* sql<{ readonly id: number; readonly name: string }>`
    SELECT migration_id AS id, name FROM public.effect_sql_migrations ORDER BY migration_id`
  // In public, the migrator has written what it is about to run.
  const migrations = rows.filter(({ id }) => schema !== "public" || id <= LAST).map(nameOf)
  // Another program may keep its migrations there.
  if (migrations[0] !== "0001_sandboxes" && migrations[0] !== "0061_schema") return null
  return versionOf(migrations) ?? (yield* new UnknownVersion({ newest: migrations.at(-1) ?? "" }))
})

/** Adds the columns that came after `version`, where they are missing. Tables that are missing are created whole afterwards. */
export const addColumns = Effect.fnUntraced(function*(version: Version) {
  const sql = yield* SqlClient.SqlClient
  for (const { newest } of VERSIONS.slice(VERSIONS.findIndex(({ newest }) => newest === version))) {
    for (const [table, added] of Object.entries(SINCE[newest])) {
      const each = added.map((one) => `ADD ${one.replace(/^COLUMN /u, "COLUMN IF NOT EXISTS ")}`)
      yield* sql.unsafe(`ALTER TABLE IF EXISTS ${table} ${each.join(", ")}`)
    }
  }
})

/** Moves the tables of an earlier version into `schema`, and adds the columns that they lack. */
export const move = Effect.fnUntraced(function*(version: Version, schema: string) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql<{ readonly name: string }>`SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'`
  const known = new Set(tables)
  if (schema !== "public") {
    for (const { name } of found) if (known.has(name)) yield* sql.unsafe(`ALTER TABLE public.${name} SET SCHEMA ${schema}`)
  }
  // With the triggers that call them. They are created anew, because they name the schema.
  for (const name of [...functions, "take_rate_slot", "started_turns"]) yield* sql.unsafe(`DROP FUNCTION IF EXISTS public.${name} CASCADE`)
  // Workers of 2213f8d chose by it.
  yield* sql`DROP INDEX IF EXISTS sandboxes_claim`
  yield* addColumns(version)
  yield* uncomment(schema)
  // A process of the earlier version that is started by mistake finds a newer number here: it creates no tables, and ends.
  yield* sql`DELETE FROM public.effect_sql_migrations WHERE ${schema} <> 'public' OR migration_id <= ${LAST}`
  if (schema !== "public") {
    yield* sql`INSERT INTO public.effect_sql_migrations (migration_id, name) VALUES (${LAST + 1}, ${`moved to the schema ${schema}`})`
  }
})

/** Comments are in the sources of the schema now. */
const uncomment = Effect.fnUntraced(function*(schema: string) {
  const sql = yield* SqlClient.SqlClient
  const commented = yield* sql<{ readonly what: string }>`
    SELECT CASE WHEN d.objsubid = 0 THEN format('TABLE %s', c.oid::regclass)
      ELSE format('COLUMN %s.%I', c.oid::regclass, a.attname) END AS what
    FROM pg_description d JOIN pg_class c ON c.oid = d.objoid AND d.classoid = 'pg_class'::regclass
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid
    WHERE c.relnamespace = ${schema}::regnamespace AND c.relname IN ${sql.in(tables)}`
  for (const { what } of commented) yield* sql.unsafe(`COMMENT ON ${what} IS NULL`)
})

/** The newest sandboxes, whose texts are found after an upgrade. Other processes wait for it, so it takes seconds. */
const FILLED = 2000

const fillSearch = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO search_texts (sandbox_id, seq, words)
    SELECT s.id, t.seq, array_to_tsvector(search_words(s.grant_id, t.text))
    FROM (SELECT id, grant_id, prompt FROM sandboxes ORDER BY created_at DESC, id DESC LIMIT ${FILLED}) s, LATERAL (
      SELECT 0 AS seq, s.prompt AS text
      UNION ALL (SELECT seq, text FROM messages WHERE sandbox_id = s.id ORDER BY seq LIMIT ${SEARCHED_MESSAGES})
    ) t ON CONFLICT DO NOTHING`
})

/** Writes what columns and tables that came after `version` mean for its rows. */
export const fill = Effect.fnUntraced(function*(version: Version) {
  const sql = yield* SqlClient.SqlClient
  // 0062 wrote the words of searches.
  if (VERSIONS.findIndex(({ newest }) => newest === version) >= VERSIONS.findIndex(({ newest }) => newest === "0062_additions")) return
  yield* fillSearch
  if (version === "0061_schema" || version === "0060_calls_by_age") return
  yield* sql`SELECT remember_pushed(id, publications) FROM sandboxes WHERE publications <> '[]'::jsonb`
  if (version === "0047_open_calls") return
  // An agent worked in them: no checkpoint has their trees yet.
  yield* sql`UPDATE sandboxes SET owes_checkpoint = true WHERE status = 'running' AND turn ->> 'startedAt' IS NOT NULL`
  yield* sql`
    UPDATE sandboxes SET work = work_of(status, turn, publications, restoring, owes_checkpoint), work_since = now(), work_seq = last_seq
    WHERE work_of(status, turn, publications, restoring, owes_checkpoint) IS NOT NULL`
  yield* sql`
    INSERT INTO resting_sandboxes SELECT id FROM sandboxes WHERE status = 'running' AND work IS NULL ON CONFLICT DO NOTHING`
})
