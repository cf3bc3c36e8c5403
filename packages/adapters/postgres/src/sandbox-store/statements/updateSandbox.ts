import { letGo } from "@slipway/domain/sandbox/ports/Checkpoints"
import type { EventProjection } from "@slipway/domain/sandbox/rules/EventProjection"
import { isArrival, workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import type { Limits } from "@slipway/domain/sandbox/rules/Policy"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import type { SqlClient } from "effect/sql"
import { iso } from "../../sql/Iso.ts"
import type { CachedRow } from "../rows/RowCache.ts"
import { deadlineOf, encodeState } from "../rows/SandboxColumns.ts"
import { keepCheckpoints, listMessages, markForPruning, recordApprovals, recordQuestions } from "./updateParts.ts"

/** The queue has up to 600,000 characters, and most events do not change it: it is written only then. */
const queueOf = (sql: SqlClient.SqlClient, before: Sandbox, { turnless, waiting, waitingTexts }: Sandbox) =>
  waiting === before.waiting
    ? sql``
    : sql`
          waiting = ${JSON.stringify(waiting)}::jsonb, waiting_texts = ${JSON.stringify(waitingTexts)}::jsonb, turnless = ${turnless},`

/** Most events do not change the title: it is written only then. */
const titleOf = (sql: SqlClient.SqlClient, before: Sandbox, { renames, title }: Sandbox) =>
  renames === before.renames ? sql`` : sql`title = ${title}, renames = ${renames},`

/** Most sandboxes have no feedback. */
const feedbackOf = (sql: SqlClient.SqlClient, before: Sandbox, { feedback }: Sandbox, text: string | null) =>
  feedback === before.feedback ? sql`` : sql`feedback = ${text}::jsonb,`

/**
 * Writes a sandbox, its new log entries and what follows from them in one round trip. It writes only if the row still has the known
 * version (`xmin`); otherwise it returns no row and nothing is written. Every part is derived from the updated row, so nothing is
 * written before that row is locked. `fence`: of the writing worker's lease.
 */
export const updateSandbox = (
  { limits, sql }: { readonly limits: Limits; readonly sql: SqlClient.SqlClient },
  row: CachedRow,
  events: ReadonlyArray<SandboxEvent>,
  { approvals, at, entries, messages, questions, sandbox }: EventProjection,
  fence: number | null
) => {
  const before = row.sandbox
  const state = encodeState(sandbox)
  const work = workOf(sandbox)
  const workSince = work === null ? sql`NULL` : sql`coalesce(work_since, now())`
  const kept = fence === null ? sql`` : keepCheckpoints(sql, events, at, fence)
  // Its new machine has all of it by now.
  const arrived = fence !== null && isArrival(events) ? sql.literal("moved = NULL, moved_from = NULL, moved_fence = NULL,") : sql``
  const [stood, answered, listed, marked] = [
    recordApprovals(sql, approvals),
    recordQuestions(sql, questions),
    listMessages(sql, { at, messages, sandbox }),
    markForPruning(sql, letGo({ before, sandbox }))
  ]
  return sql<{ readonly version: string }>`
        WITH changed AS (
          UPDATE sandboxes SET
            status = ${sandbox.status}, reason = ${sandbox.reason}, initiator = ${sandbox.initiator},
            status_at = ${iso(sandbox.statusAt)}, started_at = ${iso(sandbox.startedAt)},
            completed_at = ${iso(sandbox.completedAt)}, error = ${sandbox.error}, turn = ${state.turn}::jsonb,
            idle_since = ${iso(sandbox.idleSince)}, approvals = ${state.approvals}::jsonb,
            publications = ${state.publications}::jsonb, usage = ${state.usage}::jsonb, tokens = ${state.tokens}::jsonb,
            revision = ${sandbox.revision},
            last_seq = ${sandbox.lastSeq}, recorded_at = ${iso(at)}, log_bytes = ${sandbox.logBytes}, checkpoint = ${sandbox.checkpoint},
            owes_checkpoint = ${sandbox.owesCheckpoint}, pinned = ${sandbox.pinned},
            restoring = ${sandbox.restoring}, restores = ${sandbox.restores}, syncing = ${sandbox.syncing}, syncs = ${sandbox.syncs},
            setup_time = ${state.setupTime}::jsonb,
            ${queueOf(sql, before, sandbox)} ${titleOf(sql, before, sandbox)} ${feedbackOf(sql, before, sandbox, state.feedback)}
            deadline_at = ${deadlineOf(sandbox, limits)}, ${arrived}
            work = ${work}, work_since = ${workSince}, work_seq = ${sandbox.lastSeq}
          WHERE id = ${sandbox.id} AND last_seq = ${before.lastSeq} AND xmin = ${row.version}::xid
          RETURNING id, xmin::text AS version
        ), logged AS (
          INSERT INTO sandbox_events (sandbox_id, seq, at, type, part_id, wire)
          SELECT c.id, e.seq, ${iso(at)}, e.type, e.part, e.wire
          FROM changed c CROSS JOIN jsonb_to_recordset(${JSON.stringify(entries)}::jsonb) AS e(seq bigint, type text, part text, wire text)
        )${stood}${answered}${listed}${kept}${marked}
        SELECT version FROM changed`
}
