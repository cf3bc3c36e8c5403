/** The rows that a deletion leaves in the database. The rules for every store are in `DeletionContract`. */
import { assert, it } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import { sendMessage } from "@slipway/domain/sandbox/rules/Command"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import * as ForksContract from "@slipway/testing/contracts/sandbox/ForksContract"
import { ample, at, drive, keyOf, machine, make } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as CheckpointsPostgres from "../src/checkpoints/CheckpointsPostgres.ts"
import { TOMBSTONE } from "../src/sandbox-store/statements/deletion.ts"
import { stores } from "./Stores.ts"

const layer = stores(CheckpointsPostgres.layer)
const longAgo = DateTime.subtract(at, { days: 400 })

/** Columns that a tombstone keeps. */
const KEPT = [
  "id",
  "grant_id",
  "created_at",
  "status",
  "reason",
  "initiator",
  "status_at",
  "started_at",
  "completed_at",
  "idle_since",
  "recorded_at",
  "usage",
  "tokens",
  "budget_micro_usd",
  "revision",
  "last_seq",
  "purged_seq",
  "purged_before",
  "log_bytes",
  "checkpoint",
  "restores",
  "renames",
  "syncs",
  "turnless",
  "fence",
  "work_seq",
  "deleted_at"
]

it.live("a tombstone empties every column that it need not keep", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly name: string }>`
      SELECT column_name AS name FROM information_schema.columns
      WHERE table_schema = current_schema() AND table_name = 'sandboxes' ORDER BY 1`
    assert.deepStrictEqual(rows.map(({ name }) => name), [...KEPT, ...Object.keys(TOMBSTONE)].sort())
  }).pipe(Effect.provide(layer)))

/** Tables with a sandbox's id that a deletion empties; the bytes of checkpoints and the pieces of artifacts go with the next purge. */
const EMPTIED = ["approvals", "artifact_lists", "artifact_pieces", "checkpoint_contents", "checkpoints", "commands", "feedback_watches",
  "messages", "notification_lines", "notification_redeliveries", "notifications", "prompt_file_uses", "questions", "resting_sandboxes",
  "sandbox_events", "sandbox_pins", "sandbox_setups", "search_texts", "traces", "webhook_deliveries"]
/** Tables with a sandbox's id that stay, with their columns of text. None has a word of a prompt, an agent or a repository's content. */
const STAYING: Readonly<Record<string, ReadonlyArray<string>>> = {
  automation_runs: ["code", "message", "outcome", "request", "trigger_id"],
  checkpoint_marks: [],
  credit_charges: [],
  // Those of creations, which answer that the sandbox was deleted.
  idempotency_keys: ["fingerprint", "key", "route"],
  model_calls: ["state"],
  partner_tasks: ["project_id"],
  pushed_commits: ["repo", "sha"],
  sandbox_spending: []
}

it.live("of each table with a sandbox's id it is decided whether a deletion empties it, and which texts stay", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const columns = yield* sql<{ readonly table: string; readonly name: string; readonly type: string }>`
      SELECT table_name AS "table", column_name AS name, udt_name AS type FROM information_schema.columns
      WHERE table_schema = current_schema() ORDER BY 1, 2`
    const tables = new Set(columns.filter(({ name }) => name === "sandbox_id").map(({ table }) => table))
    assert.deepStrictEqual([...tables].sort(), [...EMPTIED, ...Object.keys(STAYING)].sort())
    const isTextual = (type: string) => ["text", "_text", "json", "jsonb", "bytea", "tsvector", "varchar"].includes(type)
    for (const [table, expected] of Object.entries(STAYING)) {
      const texts = columns.filter((column) => column.table === table && column.name !== "sandbox_id" && isTextual(column.type))
      assert.deepStrictEqual(texts.map(({ name }) => name), expected, table)
    }
  }).pipe(Effect.provide(layer)))

it.live("no table has a word of a deleted sandbox", () =>
  Effect.gen(function*() {
    const [sql, store, ids] = [yield* SqlClient.SqlClient, yield* SandboxStore, yield* Ids]
    const word = "xylophonic"
    const made = yield* make({
      title: word,
      prompt: `The ${word} prompt`,
      metadata: { note: word },
      repos: [{ fullName: `acme/${word}` as never }]
    })
    // An endpoint that is told of it, and an answer that quotes it.
    const endpoint = yield* ids.uuid7
    yield* sql`
      INSERT INTO webhook_endpoints (id, grant_id, url, secrets, created_at, cursor, due_at, notifications)
      VALUES (${endpoint}, ${made.grantId}, 'https://hooks.example.com/', '[]', now(), 0, now(), '{sandbox.running,turn.completed}')`
    yield* sql`
      INSERT INTO webhook_deliveries (endpoint_id, event_id, sequence, attempt, manual, at, duration_ms, status, body, sandbox_id, type)
      VALUES (${endpoint}, ${yield* ids.uuid7}, 1, 1, false, now(), 1, 500, ${word}, ${made.id}, 'sandbox.running')`
    const turn = turnId(ids, made.id, 1)
    const found = (yield* (yield* Leases).take(machine, ample)).find(({ sandbox }) => sandbox.id === made.id)
    assert.isDefined(found)
    const setup = { startedAt: at, ms: 1, cache: "none", exitCode: 0, output: word, told: word } as const
    yield* (yield* Setups).save(found!.lease, { state: "succeeded", ...setup })
    yield* drive(made, [
      { _tag: "StartBoot" },
      { _tag: "FinishBoot", turnId: turn },
      { _tag: "StartTurn", turnId: turn },
      { _tag: "RequestApproval", turnId: turn, approval: { approval_id: "1", tool: word, kind: "command" } },
      { _tag: "EndTurn", turnId: turn, state: "interrupted" }
    ])
    yield* store.command(keyOf(made), sendMessage(ids, `More ${word}`, "user-2"), at)
    yield* (yield* SandboxDashboard).pin({ grantId: made.grantId, userId: "user-2" }, made.id, true)
    yield* sql`INSERT INTO artifact_lists (sandbox_id, artifacts, left_out) VALUES (${made.id}, '[]', ${word})`
    yield* ForksContract.settle(made)
    const tables = yield* sql<{ readonly name: string }>`SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()`
    const [plain, hexadecimal] = [`%${word}%`, `%${Buffer.from(word).toString("hex")}%`]
    const having = Effect.filter(
      tables.map(({ name }) => name),
      // A row of bytes is written in hexadecimal digits.
      (name) =>
        Effect.map(
          sql`SELECT FROM ${sql(name)} x WHERE x::text LIKE ${plain} OR x::text LIKE ${hexadecimal} LIMIT 1`,
          ({ length }) => length > 0
        )
    )
    assert.includeMembers([...(yield* having)], ["artifact_lists", "messages", "notifications", "sandbox_events", "sandbox_setups",
      "sandboxes", "search_texts", "webhook_deliveries"])
    yield* store.delete(keyOf(made), at)
    assert.deepStrictEqual(yield* having, [])
    const of = yield* Effect.filter(
      tables.map(({ name }) => name),
      (name) => Effect.map(sql`SELECT FROM ${sql(name)} x WHERE x::text LIKE ${`%${made.id}%`} LIMIT 1`, ({ length }) => length > 0)
    )
    assert.deepStrictEqual([...of].sort(), ["audit_log", "checkpoint_marks", "sandboxes"])
  }).pipe(Effect.provide(layer)))

it.live("of a process that died in the middle of a long log nothing is read, and the next purge finishes it", () =>
  Effect.gen(function*() {
    const [sql, store, maintenance] = [yield* SqlClient.SqlClient, yield* SandboxStore, yield* Maintenance]
    const made = yield* make()
    yield* drive(made, [{ _tag: "StartBoot" }, { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false }])
    yield* sql`
      INSERT INTO sandbox_events (sandbox_id, seq, at, type, wire)
      SELECT ${made.id}, n, now(), 'message.updated', '{}' FROM generate_series(1000, 26000) n`
    yield* sql`
      INSERT INTO messages (sandbox_id, seq, id, turn_id, role, text, created_at)
      SELECT ${made.id}, n, n, 't', 'user', 'text', now() FROM generate_series(1000, 1100) n`
    yield* sql`UPDATE sandboxes SET last_seq = 26000, deleted_at = now() WHERE id = ${made.id}`
    assert.deepStrictEqual([yield* store.log(made.id, 0, 10), yield* store.messages(made.id, 0, 10)], [[], []])
    const left = Effect.map(
      sql<{ readonly n: number }>`
        SELECT ((SELECT count(*) FROM sandbox_events WHERE sandbox_id = ${made.id})
          + (SELECT count(*) FROM messages WHERE sandbox_id = ${made.id}))::int AS n`,
      ([row]) => row?.n
    )
    assert.isAbove((yield* left) ?? 0, 25_000)
    assert.isTrue((yield* maintenance.purgeEvents(longAgo, 20)).more)
    assert.isAbove((yield* left) ?? 0, 0)
    while ((yield* maintenance.purgeEvents(longAgo, 20)).more) continue
    assert.strictEqual(yield* left, 0)
  }).pipe(Effect.provide(layer)))
