/** Accounts of grants and sandboxes: `grant_spending`, `sandbox_spending`, each by its primary key. */
import type { ModelCall } from "@slipway/domain/models/ports/Spending"
import type { Accounts } from "@slipway/domain/models/rules/Budget"
import type { TokenCounts } from "@slipway/domain/models/rules/Usage"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import * as Batches from "../../sql/Batches.ts"
import { textArray } from "../../sql/TextArray.ts"
import { decodeCall, decodeGrant, decodeSandbox, GRANT_COLUMNS } from "../rows/SpendingRows.ts"

export const lockGrant = (sql: SqlClient.SqlClient, grantId: string) =>
  sql`SELECT ${sql.literal(GRANT_COLUMNS)} FROM grant_spending g WHERE grant_id = ${grantId} FOR UPDATE`

/** Both accounts of a call, locked, and the call; accounts that are missing are made. */
export const lockAccounts = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, { budget, grantId, id, sandboxId }: ModelCall) {
  for (;;) {
    const [grant] = yield* lockGrant(sql, grantId)
    const [found] = grant === undefined ? [] : yield* sql`
          SELECT s.grant_id AS "grantId", s.calls, s.spent, s.reserved, s.wanted, s.micros,
            c.reserved AS "callReserved", c.micros AS "callMicros", c.state
          FROM sandbox_spending s LEFT JOIN model_calls c ON c.id = ${id}
          WHERE s.sandbox_id = ${sandboxId} FOR UPDATE OF s`
    if (grant !== undefined && found !== undefined) {
      const call = found["state"] === null
        ? null
        : decodeCall({ reserved: found["callReserved"], micros: found["callMicros"], state: found["state"] })
      return { grant: decodeGrant(grant), sandbox: decodeSandbox(found), call }
    }
    yield* sql`INSERT INTO grant_spending (grant_id) VALUES (${grantId}) ON CONFLICT DO NOTHING`
    yield* sql`
      INSERT INTO sandbox_spending (sandbox_id, grant_id, budget) VALUES (${sandboxId}, ${grantId}, ${budget ?? null})
      ON CONFLICT DO NOTHING`
  }
})

/**
 * Saves both accounts in one round trip. An own budget that the call does not name stays. Token counts are added, and stay at the largest
 * exact number.
 */
export const saveAccounts = (
  sql: SqlClient.SqlClient,
  { budget, grantId, sandboxId }: Omit<ModelCall, "id">,
  { grant, sandbox }: Accounts,
  calls: number,
  { cachedInput, input, output }: TokenCounts
) =>
  sql`
      WITH g AS (
        UPDATE grant_spending SET spent = ${grant.spent}, reserved = ${grant.reserved}, wanted = ${grant.wanted}
        WHERE grant_id = ${grantId}
      )
      UPDATE sandbox_spending SET spent = ${sandbox.spent}, reserved = ${sandbox.reserved}, wanted = ${sandbox.wanted}, calls = ${calls},
        budget = coalesce(${budget ?? null}::bigint, budget),
        input_tokens = least(input_tokens + ${input}::bigint, ${Number.MAX_SAFE_INTEGER}::bigint),
        cached_input_tokens = least(cached_input_tokens + ${cachedInput}::bigint, ${Number.MAX_SAFE_INTEGER}::bigint),
        output_tokens = least(output_tokens + ${output}::bigint, ${Number.MAX_SAFE_INTEGER}::bigint)
      WHERE sandbox_id = ${sandboxId}`

/** The account of a sandbox with its tokens. */
export const selectSandbox = (sql: SqlClient.SqlClient, sandboxId: string, lock: boolean) => {
  const columns = sql.literal(`
            grant_id AS "grantId", calls, spent, reserved, wanted, micros,
            input_tokens AS "input", cached_input_tokens AS "cachedInput", output_tokens AS "output"`)
  return lock
    ? sql`SELECT ${columns} FROM sandbox_spending WHERE sandbox_id = ${sandboxId} FOR UPDATE`
    : sql`SELECT ${columns} FROM sandbox_spending WHERE sandbox_id = ${sandboxId}`
}

export interface AskedGrant {
  readonly grantId: string
  readonly sandboxId: string | null
}

/** The account of each asked grant with that of one of its sandboxes, in the order of the question; `null`: no such grant. */
export const selectAccounts = (reads: SqlClient.SqlClient, asked: ReadonlyArray<AskedGrant>) =>
  Effect.map(
    reads`
          SELECT k.n, ${reads.literal(GRANT_COLUMNS)}, s.spent AS "sandboxSpent", s.wanted AS "sandboxWanted",
            s.budget AS "sandboxBudget"
          FROM unnest(${textArray(asked.map(({ grantId }) => grantId))}::uuid[],
            ${textArray(asked.map(({ sandboxId }) => sandboxId ?? ""))}::text[]) WITH ORDINALITY AS k(grant_id, sandbox_id, n)
          JOIN grants ON grants.id = k.grant_id LEFT JOIN grant_spending g ON g.grant_id = grants.id
          LEFT JOIN sandbox_spending s ON s.sandbox_id = k.sandbox_id AND s.grant_id = grants.id`,
    (rows) => Batches.placed(asked, rows, (row) => row["n"])
  )

/** `own`: the grant has a budget of its own. */
export const saveBudget = (sql: SqlClient.SqlClient, grantId: string, own: boolean, budget: number | null) =>
  sql`
          INSERT INTO grant_spending AS g (grant_id, own, budget) VALUES (${grantId}, ${own}, ${budget})
          ON CONFLICT (grant_id) DO UPDATE SET own = excluded.own, budget = excluded.budget
          RETURNING ${sql.literal(GRANT_COLUMNS)}`

export const selectGrant = (reads: SqlClient.SqlClient, grantId: string) =>
  reads`SELECT ${reads.literal(GRANT_COLUMNS)} FROM grant_spending g WHERE grant_id = ${grantId}`
