/** Parts of the statement that writes a sandbox (`updateSandbox`). Each is empty when there is nothing to write. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SEARCHED_MESSAGES } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import type { EventProjection } from "@slipway/domain/sandbox/rules/EventProjection"
import { type SandboxEvent, TEXT_PART } from "@slipway/domain/sandbox/rules/SandboxEvent"
import type { DateTime } from "effect"
import type { SqlClient } from "effect/sql"
import { iso } from "../../sql/Iso.ts"
import { textArray } from "../../sql/TextArray.ts"

/** Makes a recorded checkpoint visible: the content that the recording lease stored last. */
export const keepCheckpoints = (
  sql: SqlClient.SqlClient,
  events: ReadonlyArray<SandboxEvent>,
  at: DateTime.Utc,
  fence: number
) => {
  const recorded = events.flatMap(({ data, type }) =>
    type === "sandbox.checkpoint" ? [{ checkpoint: data.checkpoint ?? 0, turn: data.turn_id ?? null, repos: data.repos ?? [] }] : []
  )
  return recorded.length === 0 ? sql`` : sql`, kept AS (
          INSERT INTO checkpoints (sandbox_id, checkpoint, content, turn_id, created_at, bytes, repos)
          SELECT c.id, r.checkpoint, last.id, r.turn, ${iso(at)}, last.bytes, r.repos
          FROM changed c CROSS JOIN jsonb_to_recordset(${JSON.stringify(recorded)}::jsonb) AS r(checkpoint integer, turn text, repos jsonb)
          CROSS JOIN LATERAL (
            SELECT p.id, p.bytes FROM checkpoint_contents p
            WHERE p.sandbox_id = c.id AND p.checkpoint = r.checkpoint AND p.fence = ${fence} ORDER BY p.id DESC LIMIT 1
          ) last WHERE last.bytes IS NOT NULL
        )`
}

/** The state of each approval that the events are about. */
export const recordApprovals = (sql: SqlClient.SqlClient, approvals: EventProjection["approvals"]) =>
  approvals.length === 0 ? sql`` : sql`, stood AS (
          INSERT INTO approvals (sandbox_id, approval_id, outcome, resolved_by, reason)
          SELECT c.id, a."approvalId", a.outcome, a.by, a.reason
          FROM changed c
          CROSS JOIN jsonb_to_recordset(${JSON.stringify(approvals)}::jsonb) AS a("approvalId" text, outcome text, by text, reason text)
          ON CONFLICT (sandbox_id, approval_id) DO UPDATE
            SET outcome = excluded.outcome, resolved_by = excluded.resolved_by, reason = excluded.reason
        )`

/** The state of each request for answers that the events are about. */
export const recordQuestions = (sql: SqlClient.SqlClient, questions: EventProjection["questions"]) =>
  questions.length === 0 ? sql`` : sql`, answered AS (
          INSERT INTO questions (sandbox_id, question_id, resolved_by, answers)
          SELECT c.id, q."questionId", q.by, q.answers
          FROM changed c
          CROSS JOIN jsonb_to_recordset(${JSON.stringify(questions)}::jsonb) AS q("questionId" text, by text, answers jsonb)
          ON CONFLICT (sandbox_id, question_id) DO UPDATE SET resolved_by = excluded.resolved_by, answers = excluded.answers
        )`

/**
 * Prompts, and messages of the agent that became whole. The text of a message that none of the events has is the newest one in the
 * log, by the index over its parts. An agent's message that went on after it was listed replaces its text.
 */
export const listMessages = (
  sql: SqlClient.SqlClient,
  { at, messages, sandbox: { grantId } }: Pick<EventProjection, "at" | "messages" | "sandbox">
) =>
  messages.length === 0 ? sql`` : sql`, said AS (
          -- A message that became whole twice is listed at its first event, with all of its text.
          SELECT c.id AS sandbox_id, min(m.seq) AS seq, m.id, m."turnId", m.role,
            (array_agg(coalesce(m.text, l.text) ORDER BY m.seq DESC))[1] AS text
          FROM changed c
          CROSS JOIN jsonb_to_recordset(${JSON.stringify(messages)}::jsonb) AS m(seq bigint, id text, "turnId" text, role text, text text)
          LEFT JOIN LATERAL (
            SELECT e.wire::jsonb -> 'data' ->> 'text' AS text FROM sandbox_events e
            WHERE m.text IS NULL AND e.sandbox_id = c.id AND e.part_id = m.id || ${TEXT_PART}
            ORDER BY e.seq DESC LIMIT 1
          ) l ON true
          -- A message that was all reasoning says nothing.
          WHERE coalesce(m.text, l.text) IS NOT NULL
          GROUP BY c.id, m.id, m."turnId", m.role
        ), told_on AS (
          -- A message that went on after it was listed.
          UPDATE messages t SET text = s.text FROM said s
          WHERE s.role = 'assistant' AND t.sandbox_id = s.sandbox_id AND t.id = s.id AND t.role = 'assistant'
          RETURNING t.sandbox_id, t.seq, t.id, t.text
        ), listed AS (
          INSERT INTO messages (sandbox_id, seq, id, turn_id, role, text, created_at)
          SELECT s.sandbox_id, s.seq, s.id, s."turnId", s.role, s.text, ${iso(at)} FROM said s
          WHERE s.role = 'user' OR s.id NOT IN (SELECT id FROM told_on)
          RETURNING sandbox_id, seq, text
        ), searched AS (
          INSERT INTO search_texts (sandbox_id, seq, words)
          SELECT sandbox_id, seq, array_to_tsvector(search_words(${grantId}::uuid, text)) FROM (
            SELECT m.*, row_number() OVER (ORDER BY m.seq) + k.count AS n FROM (
              SELECT sandbox_id, seq, text FROM told_on UNION ALL SELECT sandbox_id, seq, text FROM listed
            ) m CROSS JOIN (
              SELECT count(*) AS count FROM search_texts t JOIN changed c ON t.sandbox_id = c.id WHERE t.seq > 0
            ) k
          ) m WHERE n <= ${SEARCHED_MESSAGES}
          ON CONFLICT (sandbox_id, seq) DO UPDATE SET words = excluded.words
        )`

/** Sandboxes whose checkpoints `Checkpoints.prune` must look at. */
export const markForPruning = (sql: SqlClient.SqlClient, ids: ReadonlyArray<SandboxId>) =>
  ids.length === 0 ? sql`` : sql`, marked AS (
          INSERT INTO checkpoint_marks (sandbox_id) SELECT m.id FROM changed CROSS JOIN unnest(${textArray(ids)}::text[]) AS m(id)
          ON CONFLICT (sandbox_id) DO UPDATE SET due_at = excluded.due_at
        )`
