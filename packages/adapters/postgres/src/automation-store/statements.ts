/** Statements over `automations`, as `a`, and `automation_runs`, as `r`. */
import { type AutomationKey, AutomationNotFound, CLAIM_TIME } from "@slipway/domain/automation/ports/AutomationStore"
import type { Automation, Beginning, Progress } from "@slipway/domain/automation/rules/Automation"
import type { AutomationSettings } from "@slipway/domain/automation/schema/Automation"
import { DateTime, Duration, Effect, Schema } from "effect"
import { type SqlClient, SqlSchema, type Statement } from "effect/sql"
import { Int8 } from "../sql/Int8.ts"
import { textArray } from "../sql/TextArray.ts"
import { AUTOMATION, automationOf, BootRow, requestText, RUN, RunRow, settingsText, TakenRow } from "./AutomationRows.ts"

const iso = DateTime.formatIso
const isoOrNull = (at: DateTime.Utc | null) => at === null ? null : iso(at)
const columns = (sql: SqlClient.SqlClient) => sql.literal(AUTOMATION)
const lower = ({ repos }: AutomationSettings) => textArray(repos.map(({ fullName }) => fullName.toLowerCase()))

const one = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, { grantId, id }: AutomationKey, lock: Statement.Fragment) {
  const [row] = yield* sql`SELECT ${columns(sql)} FROM automations a WHERE id = ${id} AND grant_id = ${grantId} ${lock}`
  return row === undefined ? yield* new AutomationNotFound() : yield* automationOf(row)
})

/** One automation of a grant. */
export const find = (sql: SqlClient.SqlClient, key: AutomationKey) => one(sql, key, sql``)
/** The same, locked until the transaction ends: changes and runs of one automation wait for each other. */
export const findLocked = (sql: SqlClient.SqlClient, key: AutomationKey) => one(sql, key, sql`FOR NO KEY UPDATE`)

export const selectOfGrant = (sql: SqlClient.SqlClient, grantId: string) =>
  sql`SELECT ${columns(sql)} FROM automations a WHERE grant_id = ${grantId} ORDER BY created_at, id`

/** Automations of one grant that are made at once wait for each other, so each counts those before it. */
export const lockGrant = (sql: SqlClient.SqlClient, grantId: string) =>
  sql`SELECT pg_advisory_xact_lock(hashtextextended(${`automations/${grantId}`}, 0))`

export const insertAutomation = (sql: SqlClient.SqlClient, automation: Automation, secrets: string | null) => {
  const { createdAt, createdBy, dueAt, failures, grantId, id, settings, test } = automation
  return sql`
    INSERT INTO automations (id, grant_id, created_by, test, created_at, settings, kind, repos, secrets, failures, due_at)
    VALUES (${id}, ${grantId}, ${createdBy}, ${test}, ${iso(createdAt)}, ${settingsText(settings)}::jsonb, ${settings.trigger.type},
      ${lower(settings)}::text[], ${secrets}::jsonb, ${failures}, ${isoOrNull(dueAt)})`
}

export const updateSettings = (sql: SqlClient.SqlClient, id: string, settings: AutomationSettings, dueAt: DateTime.Utc | null) =>
  sql`
    UPDATE automations SET settings = ${settingsText(settings)}::jsonb, kind = ${settings.trigger.type}, repos = ${lower(settings)}::text[],
      due_at = ${isoOrNull(dueAt)}
    WHERE id = ${id}`

export const updateProgress = (sql: SqlClient.SqlClient, id: string, { failures, paused }: Progress) =>
  sql`
    UPDATE automations SET failures = ${failures}, paused_at = ${isoOrNull(paused?.at ?? null)}, paused_reason = ${paused?.reason ?? null}
    WHERE id = ${id}`

export const updateDue = (sql: SqlClient.SqlClient, id: string, dueAt: DateTime.Utc | null) =>
  sql`UPDATE automations SET due_at = ${isoOrNull(dueAt)} WHERE id = ${id}`

/** With its runs, by the foreign key. */
export const deleteAutomation = (sql: SqlClient.SqlClient, id: string) => sql`DELETE FROM automations WHERE id = ${id}`

/** Stored secrets as they are: those of one automation may not decode. */
export const selectSecrets = (sql: SqlClient.SqlClient, id: string) =>
  sql<{ readonly secrets: unknown }>`
    SELECT ${columns(sql)}, a.secrets FROM automations a WHERE id = ${id} AND secrets IS NOT NULL`

export const updateSecrets = (sql: SqlClient.SqlClient, id: string, secrets: string) =>
  sql`UPDATE automations SET secrets = ${secrets}::jsonb WHERE id = ${id}`

export const selectFollowing = (sql: SqlClient.SqlClient, repo: string, limit: number) =>
  sql`
    SELECT ${columns(sql)} FROM automations a
    WHERE repos @> ${textArray([repo.toLowerCase()])}::text[] AND kind IN ('mention', 'label') AND paused_at IS NULL
    ORDER BY created_at, id LIMIT ${limit}`

/** Schedules that are due, locked. Rows that another process moves on are skipped. */
export const selectDue = (sql: SqlClient.SqlClient, now: DateTime.Utc, limit: number) =>
  sql<{ readonly id: string }>`
    SELECT ${columns(sql)} FROM automations a WHERE due_at <= ${iso(now)} AND paused_at IS NULL
    ORDER BY due_at LIMIT ${limit} FOR NO KEY UPDATE SKIP LOCKED`

const runs = SqlSchema.findAll
const runColumns = (sql: SqlClient.SqlClient) => sql.literal(RUN)

export const selectRun = (sql: SqlClient.SqlClient, id: string) =>
  runs({ Request: Schema.Void, Result: RunRow, execute: () => sql`SELECT ${runColumns(sql)} FROM automation_runs r WHERE id = ${id}` })(
    undefined
  )

/** The runs that count for the limits: of the last 24 hours, skipped ones apart, and those that are active. */
export const countRuns = (sql: SqlClient.SqlClient, id: string, at: DateTime.Utc) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: Schema.Struct({ today: Int8, skipped: Int8, running: Int8 }),
    execute: () =>
      sql`
      SELECT
        count(*) FILTER (WHERE r.outcome <> 'skipped' AND r.at > ${iso(DateTime.subtract(at, { days: 1 }))}) AS today,
        count(*) FILTER (WHERE r.outcome = 'skipped' AND r.at > ${iso(DateTime.subtract(at, { days: 1 }))}) AS skipped,
        count(*) FILTER (WHERE r.outcome = 'starting' OR s.status IN ('queued', 'creating', 'running', 'terminating')) AS running
      FROM automation_runs r LEFT JOIN sandboxes s ON s.id = r.sandbox_id WHERE r.automation_id = ${id}`
  })(undefined)

const claimed = (sql: SqlClient.SqlClient) => sql`clock_timestamp() + make_interval(secs => ${Duration.toSeconds(CLAIM_TIME)})`

/** With the claim of the caller unless it is skipped. */
export const insertRun = (
  sql: SqlClient.SqlClient,
  { automationId, id }: { readonly id: string; readonly automationId: string },
  { at, request, triggerId }: Beginning,
  limit: string | null
) =>
  runs({
    Request: Schema.Void,
    Result: RunRow,
    execute: () =>
      limit === null
        ? sql`
      INSERT INTO automation_runs AS r (id, automation_id, trigger_id, at, outcome, request, fence, claimed_until)
      VALUES (${id}, ${automationId}, ${triggerId}, ${iso(at)}, 'starting', ${requestText(request)}::jsonb, 1, ${claimed(sql)})
      RETURNING ${runColumns(sql)}`
        : sql`
      INSERT INTO automation_runs AS r (id, automation_id, trigger_id, at, outcome, code)
      VALUES (${id}, ${automationId}, ${triggerId}, ${iso(at)}, 'skipped', ${limit})
      RETURNING ${runColumns(sql)}`
  })(undefined)

/** Runs without a claim. Rows that another process takes are skipped. */
export const takeRuns = (sql: SqlClient.SqlClient, limit: number) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: TakenRow,
    execute: () =>
      sql`
      WITH free AS (
        SELECT position FROM automation_runs WHERE outcome = 'starting' AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())
        ORDER BY position LIMIT ${limit} FOR NO KEY UPDATE SKIP LOCKED
      )
      UPDATE automation_runs r SET fence = r.fence + 1, claimed_until = ${claimed(sql)}
      FROM free, automations a WHERE r.position = free.position AND a.id = r.automation_id
      RETURNING r.id, r.at, r.request, r.fence, a.id AS "automationId", a.grant_id AS "grantId", a.created_by AS "createdBy", a.test`
  })(undefined)

/** A row if the run was still the caller's. */
export const endRun = (
  sql: SqlClient.SqlClient,
  { fence, id }: { readonly id: string; readonly fence: number },
  outcome: string,
  { code, message, sandboxId }: { readonly sandboxId: string | null; readonly code: string | null; readonly message: string | null }
) =>
  sql`
    UPDATE automation_runs SET outcome = ${outcome}, boots = (${outcome} = 'started'), sandbox_id = ${sandboxId}, code = ${code},
      message = ${message}, request = NULL, claimed_until = NULL
    WHERE id = ${id} AND fence = ${fence} AND outcome = 'starting' RETURNING 1`

/** Runs whose sandboxes started or ended since. Rows that another process ends are skipped. */
export const takeBoots = (sql: SqlClient.SqlClient, limit: number) =>
  SqlSchema.findAll({
    Request: Schema.Void,
    Result: BootRow,
    execute: () =>
      sql`
      WITH ended AS (
        SELECT r.position FROM automation_runs r LEFT JOIN sandboxes s ON s.id = r.sandbox_id
        WHERE r.boots AND (s.id IS NULL OR s.started_at IS NOT NULL OR s.status IN ('succeeded', 'failed', 'terminated'))
        ORDER BY r.position LIMIT ${limit} FOR NO KEY UPDATE OF r SKIP LOCKED
      ), known AS (
        UPDATE automation_runs r SET boots = false FROM ended WHERE r.position = ended.position
        RETURNING r.position, r.automation_id, r.sandbox_id
      )
      SELECT known.automation_id AS id, a.grant_id AS "grantId", s.status, s.started_at AS "startedAt"
      FROM known JOIN automations a ON a.id = known.automation_id LEFT JOIN sandboxes s ON s.id = known.sandbox_id
      ORDER BY known.position`
  })(undefined)

/** Runs of an automation, newest first, below a position; by the index over automation and position. */
export const selectRuns = (sql: SqlClient.SqlClient, id: string, before: number | null, limit: number) => {
  const older = before === null ? sql`` : sql`AND position < ${before}`
  return runs({
    Request: Schema.Void,
    Result: RunRow,
    execute: () =>
      sql`
      SELECT ${runColumns(sql)} FROM automation_runs r WHERE automation_id = ${id} ${older}
      ORDER BY position DESC LIMIT ${limit}`
  })(undefined)
}

/** The oldest ended runs, by the index over time. Rows that another process purges are skipped. */
export const purgeRuns = (sql: SqlClient.SqlClient, before: DateTime.Utc, limit: number) =>
  sql`
    DELETE FROM automation_runs WHERE position IN (
      SELECT position FROM automation_runs WHERE at < ${iso(before)} AND outcome <> 'starting' ORDER BY at LIMIT ${limit}
      FOR UPDATE SKIP LOCKED
    ) RETURNING 1`
