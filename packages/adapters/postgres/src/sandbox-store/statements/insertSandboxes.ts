import { RETENTION_DAYS } from "@slipway/domain/sandbox/rules/Idempotency"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { Prepared } from "../rows/Prepared.ts"

/**
 * Creates many sandboxes with one statement and one fsync: keys, rows, first events, traces and partner facts. Returns the ids of those
 * that were made; the key of any other is bound already, by a committed transaction. Shared rows are locked in one order, so no two
 * batches wait for each other: keys by name, then attributions, then feeds.
 */
export const insertSandboxes = (sql: SqlClient.SqlClient, prepared: ReadonlyArray<Prepared>) =>
  prepared.length === 0 ? Effect.succeed(new Set<string>()) : Effect.map(
    sql<{ readonly id: string }>`
        WITH asked AS MATERIALIZED (
          SELECT * FROM json_to_recordset(${`[${prepared.map(({ row }) => row).join(",")}]`}::json) AS r(
            id text, "grantId" uuid, "createdBy" text, at timestamptz, title text, repos jsonb, "repoNames" text[], prompt text, model text,
            "agentRuntime" text, "reasoningEffort" text, "toolApprovalMode" text, metadata jsonb, origin jsonb, feedback jsonb,
            continues jsonb, "budgetMicroUsd" bigint, environment jsonb, "mcpServers" jsonb, status text, initiator text, approvals jsonb,
            publications jsonb, usage jsonb, revision bigint, "lastSeq" bigint, "logBytes" bigint, "deadlineAt" timestamptz,
            work text, entries json, route text, key text, fingerprint text, trace text, "organizationId" uuid,
            repo text, "eventId" uuid
          )
        ), bound AS (
          INSERT INTO idempotency_keys AS known (grant_id, route, key, fingerprint, sandbox_id)
          SELECT "grantId", route, key, fingerprint, id FROM asked WHERE key IS NOT NULL ORDER BY "grantId", route, key
          ON CONFLICT (grant_id, route, key) DO UPDATE SET
            fingerprint = excluded.fingerprint, sandbox_id = excluded.sandbox_id, command_id = excluded.command_id, created_at = now()
          WHERE known.created_at < now() - make_interval(days => ${RETENTION_DAYS})
          RETURNING sandbox_id
        ), made AS (
          INSERT INTO sandboxes (
            id, grant_id, created_by, created_at, title, repos, repo_names, prompt, model, agent_runtime, reasoning_effort,
            tool_approval_mode, metadata, origin, feedback, continues, budget_micro_usd, environment, mcp_servers, status, initiator,
            status_at, approvals, publications, usage, revision, last_seq, recorded_at, log_bytes, deadline_at, work, work_since, work_seq
          )
          SELECT id, "grantId", "createdBy", at, title, repos, "repoNames", prompt, model, "agentRuntime", "reasoningEffort",
            "toolApprovalMode", metadata, origin, feedback, continues, "budgetMicroUsd", environment, "mcpServers", status, initiator, at,
            approvals, publications, usage, revision, "lastSeq", at, "logBytes", "deadlineAt", work, now(), "lastSeq"
          FROM asked WHERE key IS NULL OR id IN (SELECT sandbox_id FROM bound)
          RETURNING id
        ), logged AS (
          INSERT INTO sandbox_events (sandbox_id, seq, at, type, part_id, wire)
          SELECT a.id, e.seq, a.at, e.type, e.part, e.wire
          FROM made JOIN asked a USING (id), json_to_recordset(a.entries) AS e(seq bigint, type text, part text, wire text)
        ), searched AS (
          INSERT INTO search_texts (sandbox_id, seq, words)
          SELECT id, 0, array_to_tsvector(search_words(a."grantId", a.prompt)) FROM made JOIN asked a USING (id)
        ), traced AS (
          INSERT INTO traces (sandbox_id, turn_id, traceparent)
          SELECT id, '', trace FROM made JOIN asked USING (id) WHERE trace IS NOT NULL
        ), attributed AS MATERIALIZED (
          SELECT pg_advisory_xact_lock_shared(hashtextextended('attribution/' || "organizationId", 0))
          FROM (SELECT DISTINCT "organizationId" FROM asked WHERE "organizationId" IS NOT NULL) o
        )
        SELECT id, CASE WHEN "organizationId" IS NOT NULL
          THEN start_task(id, "createdBy", "organizationId", repo, at, "eventId") END
        FROM (
          SELECT a.* FROM made JOIN asked a USING (id)
          LEFT JOIN recipient_touches t ON t.organization_id = a."organizationId" AND t.recipient_id = a."createdBy"
          LEFT JOIN credit_claims c ON c.id = t.claim_id
          WHERE (SELECT count(*) FROM attributed) >= 0
          ORDER BY c.grant_id NULLS FIRST OFFSET 0
        ) started`,
    (rows) => new Set(rows.map(({ id }) => id))
  )

/** Keeps the checkpoint that a fork starts from: `Checkpoints.prune` and deletions wait for this lock, and then see the fork. */
export const lockCheckpoint = (sql: SqlClient.SqlClient, sandboxId: string, checkpoint: number) =>
  sql`
          SELECT FROM checkpoints WHERE sandbox_id = ${sandboxId} AND checkpoint = ${checkpoint} FOR KEY SHARE`

/** Whether a sandbox is deleted. Asked after `lockCheckpoint`, which a deletion may have held: only another statement sees what it did. */
export const isDeleted = (sql: SqlClient.SqlClient, sandboxId: string) =>
  Effect.map(sql`SELECT FROM sandboxes WHERE id = ${sandboxId} AND deleted_at IS NOT NULL`, (rows) => rows.length > 0)
